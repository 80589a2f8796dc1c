// Elements. Labels come from files that nobody vouches for: they are only ever text.

const $ = (id) => document.getElementById(id);

/// An element with attributes, listeners (onclick: f) and children; strings become text.
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/// A canvas of so many CSS pixels, sharp on its screen; returns its context in CSS pixels.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/// Shows the floating label beside the pointer: lines of text, the first one strong.
function showTip(event, lines) {
  const tip = $('tip');
  tip.replaceChildren(...lines.map((line, i) => el(i === 0 ? 'strong' : 'span', {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 14 + width < window.innerWidth;
  const below = event.clientY + 16 + height < window.innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX + 14 : event.clientX - width - 10)}px`;
  tip.style.top = `${Math.max(4, below ? event.clientY + 16 : event.clientY - height - 10)}px`;
}
function hideTip() {
  $('tip').hidden = true;
}
