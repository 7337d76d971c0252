// Brings what a place holds up to date. What stays is not taken out, so scroll, focus and selection are kept.
const HANDLERS = ["onclick", "oninput", "onchange"];
const TYPED_INTO = ["INPUT", "SELECT", "TEXTAREA"];
const keyOf = node => node.dataset?.key;

// `fresh` are nodes and texts. A node with `data-key` takes the place of the one with the same key, any other of the one
// at the same position. No closure may hold on to a node in `fresh`: the node that was there before may stay instead.
export function patch(place, ...fresh) {
  const wanted = fresh.flat().map(child => (child instanceof Node ? child : new Text(child ?? "")));
  const children = [...place.childNodes],
    keyed = new Map(children.filter(keyOf).map(child => [keyOf(child), child]));
  const others = children.filter(child => !keyOf(child))[Symbol.iterator]();
  const isHeld = keyed.size > 0 && (place.matches(":hover") || place.contains(document.activeElement));
  const nodes = (isHeld ? inOldOrder(wanted, keyed) : wanted).map(node => {
    const old = keyOf(node) ? keyed.get(keyOf(node)) : others.next().value;
    return old && old.nodeName === node.nodeName ? update(old, node) : node;
  });
  const kept = new Set(nodes);
  for (const child of children) if (!kept.has(child)) child.remove();
  nodes.forEach((node, at) => {
    if (place.childNodes[at] !== node) place.insertBefore(node, place.childNodes[at] ?? null);
  });
}
// Rows do not move under the pointer or away from the focus. A new one stands behind the one that it follows.
function inOldOrder(wanted, keyed) {
  const fresh = new Map(wanted.map(node => [keyOf(node), node])),
    ordered = [...keyed.keys()].filter(key => fresh.has(key)).map(key => fresh.get(key));
  wanted.forEach((node, at) => {
    if (!keyed.has(keyOf(node))) ordered.splice(ordered.indexOf(wanted[at - 1]) + 1, 0, node);
  });
  return ordered;
}
function update(old, fresh) {
  if (old instanceof CharacterData) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of HANDLERS) old[name] = fresh[name];
  if (!TYPED_INTO.includes(old.nodeName)) patch(old, ...fresh.childNodes);
  return old;
}
