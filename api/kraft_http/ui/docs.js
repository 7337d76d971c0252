const $ = id => document.getElementById(id);
const el = (tag, props = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
};
let api,
  cluster = "";
const resolve = s => (s?.$ref ? api.components.schemas[s.$ref.split("/").pop()] : s || {});
function example(schema, depth = 0) {
  schema = resolve(schema);
  if (schema.examples) return schema.examples[0];
  if ("default" in schema && schema.default !== null) return schema.default;
  if (schema.anyOf) return example(schema.anyOf.find(s => s.type !== "null") || schema.anyOf[0], depth);
  if (schema.enum) return schema.enum[0];
  if (schema.type === "array") return depth > 4 ? [] : [example(schema.items, depth + 1)];
  if (schema.type === "object" || schema.properties)
    return depth > 4
      ? {}
      : Object.fromEntries(Object.entries(schema.properties || {}).map(([k, v]) => [k, example(v, depth + 1)]));
  return { string: "", integer: 0, number: 0, boolean: false }[schema.type] ?? null;
}
function shape(schema, depth = 0, seen = []) {
  const name = schema?.$ref,
    inner = resolve(schema),
    pad = "  ".repeat(depth);
  if (name && seen.includes(name)) return name.split("/").pop();
  const known = name ? [...seen, name] : seen;
  if (inner.anyOf) return inner.anyOf.map(s => shape(s, depth, known)).join(" | ");
  if (inner.enum) return inner.enum.map(v => JSON.stringify(v)).join(" | ");
  if (inner.type === "array") return "[" + shape(inner.items, depth, known) + "]";
  if (inner.properties)
    return (
      "{\n" +
      Object.entries(inner.properties)
        .map(([k, v]) => {
          const d = resolve(v).description || v.description;
          return (
            pad +
            "  " +
            k +
            ((inner.required || []).includes(k) ? "" : "?") +
            ": " +
            shape(v, depth + 1, known) +
            (d ? "   // " + d : "")
          );
        })
        .join("\n") +
      "\n" +
      pad +
      "}"
    );
  if (inner.additionalProperties) return "{ <name>: " + shape(inner.additionalProperties, depth, known) + " }";
  return inner.type || "any";
}
const quoted = text => "'" + text.replaceAll("'", "'\\''") + "'";
function readable(text) {
  if (/\d{16}/.test(text)) return text; // Numbers of JavaScript end at 2^53, those of Kafka at 2^63.
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  } // Not one JSON document.
}
function operation(path, verb, op) {
  const fields = [],
    inside = el("div", { className: "inside" });
  if (op.description) inside.append(...op.description.split("\n\n").map(text => el("p", {}, text)));
  const parameters = (op.parameters || []).filter(p => p.in !== "header");
  if (parameters.length) inside.append(el("h3", {}, "Parameters"));
  for (const p of parameters) {
    const input = el("input", {
      ariaLabel: p.name,
      placeholder: p.required ? "required" : "",
      value: p.name === "cluster_id" ? cluster : "",
    });
    fields.push([p, input]);
    inside.append(
      el("div", { className: "row" }, el("label", {}, p.name), input, el("small", {}, p.description || "")),
    );
  }
  const content = op.requestBody?.content["application/json"];
  const body =
    content && el("textarea", { ariaLabel: "Body", rows: 7, value: JSON.stringify(example(content.schema), null, 2) });
  if (content) inside.append(el("h3", {}, "Body"), body, el("pre", { tabIndex: 0 }, shape(content.schema)));
  const good = Object.entries(op.responses).find(([status]) => status < "300"),
    answer = good?.[1].content?.["application/json"];
  inside.append(el("h3", {}, "Answers " + Object.keys(op.responses).sort().join(", ")));
  if (answer) inside.append(el("pre", { tabIndex: 0 }, shape(answer.schema)));
  const out = el("pre", { hidden: true, tabIndex: 0 }),
    send = el("button", {}, verb === "get" ? "Try it" : "Send " + verb.toUpperCase());
  send.onclick = async () => {
    let url = path;
    const query = new URLSearchParams();
    for (const [p, input] of fields)
      if (p.in === "path") url = url.replace("{" + p.name + "}", encodeURIComponent(input.value));
      else if (input.value) query.set(p.name, input.value);
    if ([...query].length) url += "?" + query;
    out.hidden = false;
    out.textContent = "…";
    try {
      const response = await fetch(url, {
        method: verb.toUpperCase(),
        body: body ? body.value : undefined,
        headers: body ? { "content-type": "application/json" } : {},
      });
      const text = readable(await response.text());
      out.textContent =
        "curl " +
        (verb === "get" ? "" : "-X " + verb.toUpperCase() + " ") +
        quoted(location.origin + url) +
        (body ? " -H 'content-type: application/json' -d " + quoted(body.value.replace(/\s*\n\s*/g, " ")) : "") +
        "\n\n" +
        response.status +
        " " +
        response.statusText +
        "\n" +
        text;
    } catch (problem) {
      out.textContent = String(problem);
    }
  };
  inside.append(send, out);
  const summary = el(
    "summary",
    {},
    el("span", { className: "verb " + verb }, verb.toUpperCase()),
    el("span", { className: "path" }, path),
    el("span", { className: "what" }, op.summary || ""),
  );
  const d = el("details", {}, summary);
  d.ontoggle = () => {
    if (d.open && !d.contains(inside)) d.append(inside);
  };
  d.dataset.words = (verb + " " + path + " " + op.summary).toLowerCase();
  return d;
}
(async () => {
  api = await (await fetch("/openapi.json")).json();
  cluster = (await (await fetch("/v1/node")).json()).cluster_id;
  $("about").replaceChildren(
    ...api.info.description
      .trim()
      .split("\n\n")
      .map(text => el("p", {}, text.replaceAll("`", ""))),
  );
  const tags = new Map();
  for (const [path, verbs] of Object.entries(api.paths))
    for (const [verb, op] of Object.entries(verbs)) {
      const t = (op.tags || ["Other"])[0];
      if (!tags.has(t)) tags.set(t, []);
      tags.get(t).push(operation(path, verb, op));
    }
  $("operations").replaceChildren(
    ...[...tags].sort().map(([tag, list]) => el("div", { className: "tag" }, el("h2", {}, tag), ...list)),
  );
  $("filter").oninput = () => {
    const words = $("filter").value.toLowerCase();
    for (const group of document.querySelectorAll(".tag")) {
      let any = false;
      for (const d of group.querySelectorAll("details")) {
        d.hidden = !d.dataset.words.includes(words);
        any ||= !d.hidden;
      }
      group.hidden = !any;
    }
  };
})();
