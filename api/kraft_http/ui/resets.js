// The dialog that sets the offsets of a group, after a preview.
import { ask, button, difference, el, field, note, number, request, select, table } from "/assets/lib.js";

export const TARGETS = [
  ["earliest", "the first record"],
  ["latest", "the end"],
  ["timestamp", "a time"],
  ["offset", "an offset"],
];
// Asks for new offsets of the group at the path `here`. `held` is the name of the offsets that it has.
export async function resetOffsets({ id, here, targets, held, reload }) {
  const to = select("To", targets, "earliest"),
    value = field("Offset, or how far", { type: "number", value: "0", name: "value" }),
    time = field("Time", { type: "datetime-local", step: 1, name: "time" }),
    topic = field("Topic (empty: all for which the group has offsets)", { name: "topic" }),
    seen = el("div");
  let previewed = "";
  const body = () => ({
    to: to.input.value,
    ...(to.input.value === "timestamp"
      ? { value: new Date(time.input.value).getTime() }
      : ["offset", "shift"].includes(to.input.value)
        ? { value: value.input.value || "0" }
        : {}),
    ...(topic.input.value ? { topics: [{ topic_name: topic.input.value }] } : {}),
  });
  const post = more => request(here + "/offsets:reset", { method: "POST", body: { ...body(), ...more } });
  const look = button("Preview", async () => {
    try {
      const asked = JSON.stringify(body()),
        answer = await post({ validate_only: true });
      previewed = asked;
      seen.replaceChildren(
        table(
          [
            ["partition", "mono"],
            [held, "num"],
            ["new", "num"],
            ["change", "num"],
          ],
          answer.data.map(move => [
            move.topic_name + "-" + move.partition_id,
            number(move.current_offset),
            number(move.new_offset),
            move.current_offset === null ? "–" : number(difference(move.new_offset, move.current_offset)),
          ]),
        ),
      );
    } catch (problem) {
      previewed = "";
      seen.replaceChildren(note(problem.message, "bad"));
    }
    look.form.dispatchEvent(new Event("input"));
  });
  const ready = () => {
    value.row.hidden = !["offset", "shift"].includes(to.input.value);
    time.row.hidden = to.input.value !== "timestamp";
    return previewed !== "" && previewed === JSON.stringify(body());
  };
  if (
    await ask(
      "Reset offsets of " + id,
      [to.row, value.row, time.row, topic.row, look, seen],
      () => post({ validate_only: false }),
      { action: "Reset", danger: true, ready },
    )
  )
    await reload();
}
