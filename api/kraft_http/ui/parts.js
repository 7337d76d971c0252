// What the pages of a consumer group and of a share group have in common.
import { address, button, confirmByName, el, link, number, request } from "/assets/lib.js";
import { resetOffsets } from "/assets/resets.js";

export const placeName = each => each.topic_name + "-" + each.partition_id;
// The heading of a group's page.
export const groupHeading = id =>
  el("h1", { className: "page" }, link("groups", {}, "Groups"), el("span", { className: "crumb" }, " / "), id);
// The buttons that reset the group's offsets and delete it, hidden at first. `what` names the group's kind and `lost`
// says what is deleted with it. `resets` is passed on to the dialog.
export const groupBar = ({ id, here, what, lost, reset, resets }) =>
  el(
    "div",
    { className: "bar-row", hidden: true },
    button(reset, () => resetOffsets({ id, here, ...resets })),
    button(
      "Delete",
      async () => {
        const remove = () => request(here, { method: "DELETE" });
        if (await confirmByName("Delete " + what + " " + id + "?", id, lost, remove)) {
          history.pushState(null, "", address("groups"));
          dispatchEvent(new Event("console:reload"));
        }
      },
      "danger",
    ),
  );
// The partitions with the largest lag first, that lag (at least 1), and the sum.
export const byLag = partitions => ({
  partitions: partitions.toSorted((a, b) => Number(b.lag ?? -1) - Number(a.lag ?? -1)),
  most: partitions.reduce((most, each) => Math.max(most, Number(each.lag)), 1),
  total: partitions.reduce((sum, each) => sum + Number(each.lag), 0),
});
export const lagMeter = (lag, most) =>
  lag ? el("meter", { value: Number(lag) / most, title: number(lag) + " records", aria: { label: "lag" } }) : "";
// The names of the partitions; of `count` if there are more.
export const placeNames = (partitions, count) =>
  partitions.map(placeName).join(", ") + (count > partitions.length ? ", … (" + number(count) + ")" : "");
