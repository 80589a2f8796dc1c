// Elements. Labels come from files that are not trusted, so they are always text, never markup.

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

/// A word, cut so that it is at most so wide in a context's font.
function cutTo(context, word, width) {
  const letters = [...word];
  if (context.measureText(word).width <= width) return word;
  while (letters.length > 1 && context.measureText(`${letters.join('')}…`).width > width) letters.pop();
  return `${letters.join('')}…`;
}

/// Fades the right edge of a box that scrolls sideways while it has more content there. Returns a
/// function that checks again, for when the content has changed.
function fadeWhereCut(box) {
  const look = () => box.classList.toggle('more', box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener('scroll', look, { passive: true });
  new ResizeObserver(look).observe(box);
  return look;
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

/// Whether the last pointer was a finger. A finger never leaves an element, so what it touched is
/// released by the next touch, by scrolling, or after a while.
let touching = false, letGo = 0;
const tipSeconds = 2.5;
function watchTouch() {
  const release = () => {
    hideTip();
    setHover({});
  };
  const onPointer = (event) => {
    touching = event.pointerType === 'touch';
    if (!touching) return;
    release();
    clearTimeout(letGo);
    letGo = setTimeout(release, 1000 * tipSeconds);
  };
  document.addEventListener('pointerdown', onPointer, true);
  document.addEventListener('pointermove', (event) => { touching = event.pointerType === 'touch'; }, true);
  document.addEventListener('pointercancel', release, true); // the finger scrolls
  document.addEventListener('scroll', () => { if (touching) release(); }, { capture: true, passive: true });
}
