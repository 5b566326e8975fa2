"use strict";
// The timeline: lanes down, time across. Names only ever become text.
(() => {
  const block = document.getElementById("step-data");
  if (!block) return;
  const step = JSON.parse(block.textContent);
  const canvas = document.getElementById("step");
  const tip = document.getElementById("tip");
  const range = document.getElementById("range");
  const pen = canvas.getContext("2d");
  const AXIS = 26, LANE = 36, LABEL = 15, BAR = 18;
  const SHORTEST = Math.max(1, Math.min(step.end, 1000)); // picoseconds in view
  const view = { from: 0, to: Math.max(1, step.end) };
  let selected = -1;

  // Quantities

  const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

  function time(ps, like = ps, digits = 6) {
    const [size, unit] = UNITS.find(([size]) => Math.abs(like) >= size) || [1, "ps"];
    return `${Number((ps / size).toPrecision(digits))} ${unit}`;
  }

  function amount(value, unit) {
    const [size, prefix] = PREFIXES.find(([size]) => value >= size) || [1, ""];
    return `${Number((value / size).toPrecision(4))} ${prefix}${unit}`;
  }

  function niceTick(span, most) {
    const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
    return power * ([1, 2, 5].find((factor) => factor * power >= rough) || 10);
  }

  // Drawing

  const x = (ps) => ((ps - view.from) / (view.to - view.from)) * canvas.clientWidth;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

  function draw() {
    const width = canvas.clientWidth, height = AXIS + LANE * step.lanes.length + 6;
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    drawAxis(width, height);
    drawLanes(width);
    drawRecords(width);
    canvas.dataset.from = view.from;
    canvas.dataset.to = view.to;
    const span = view.to - view.from;
    range.textContent =
      `showing ${time(view.from, view.to, 9)} to ${time(view.to, view.to, 9)} (${time(span, span, 4)})`;
  }

  function drawAxis(width, height) {
    const tick = niceTick(view.to - view.from, Math.max(2, width / 110));
    const digits = Math.max(3, Math.ceil(Math.log10(view.to / tick)) + 2);
    pen.lineWidth = 1;
    for (let at = Math.ceil(view.from / tick) * tick; at <= view.to; at += tick) {
      pen.strokeStyle = colour("line");
      pen.beginPath();
      pen.moveTo(Math.round(x(at)) + 0.5, AXIS - 6);
      pen.lineTo(Math.round(x(at)) + 0.5, height);
      pen.stroke();
      pen.fillStyle = colour("quiet");
      const text = at === 0 ? "0" : time(at, view.to, digits), half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(Math.max(x(at) - half, 2), width - 2 * half - 2), 10);
    }
  }

  function drawLanes(width) {
    step.lanes.forEach((name, lane) => {
      pen.fillStyle = colour("quiet");
      pen.fillText(name, 4, AXIS + lane * LANE + LABEL / 2 + 1, width - 8);
    });
  }

  function drawRecords(width) {
    const shades = ["", "light-"].map((shade) => step.phases.map((phase) => colour(shade + phase)));
    const page = colour("page"), texts = [colour("on-bar"), colour("on-light")];
    step.records.forEach(([lane, index, start, length], i) => {
      const left = x(start), right = x(start + length);
      if (right < 0 || left > width) return;
      const [layer, phase, kind] = step.operations[index];
      const top = AXIS + lane * LANE + LABEL;
      const from = Math.max(Math.floor(left), 0), wide = Math.max(Math.min(right, width) - from, 1);
      const high = step.kinds[kind] === "memory" ? BAR / 2 : BAR;
      const light = ["compute", "memory"].includes(step.kinds[kind]) ? 0 : 1;
      pen.fillStyle = shades[light][phase];
      pen.fillRect(from, top + BAR - high, wide, high);
      if (step.kinds[kind] === "boundary") stripe(from, top, wide, page);
      if (wide > 4) {
        pen.fillStyle = page; // a gap to the next one
        pen.fillRect(from + wide - 0.5, top, 0.5, BAR);
      }
      const name = step.layers[layer];
      if (high === BAR && wide > 24 && pen.measureText(name).width < wide - 8) {
        pen.fillStyle = texts[light];
        pen.fillText(name, from + 4, top + BAR / 2 + 0.5);
      }
      if (i === selected) {
        pen.strokeStyle = colour("text");
        pen.lineWidth = 2;
        pen.strokeRect(from, top - 1, wide, BAR + 2);
      }
    });
  }

  function stripe(left, top, wide, page) {
    if (wide < 3) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide, BAR);
    pen.clip();
    pen.strokeStyle = page;
    pen.globalAlpha = 0.45;
    pen.lineWidth = 2;
    pen.beginPath();
    for (let at = left - BAR; at < left + wide; at += 7) {
      pen.moveTo(at, top + BAR);
      pen.lineTo(at + BAR, top);
    }
    pen.stroke();
    pen.restore();
  }

  // The view

  function show(from, span) {
    const all = Math.max(1, step.end);
    const wide = Math.min(Math.max(span, SHORTEST), all);
    view.from = Math.min(Math.max(from, 0), all - wide);
    view.to = view.from + wide;
    draw();
  }

  function zoom(factor, at = 0.5) {
    const span = view.to - view.from;
    const wide = Math.min(Math.max(span * factor, SHORTEST), Math.max(1, step.end));
    show(view.from + (span - wide) * at, wide);
  }

  function pan(fraction) {
    const span = view.to - view.from;
    show(view.from + span * fraction, span);
  }

  function select(by) {
    if (!step.records.length) return;
    const count = step.records.length;
    selected = selected < 0 ? (by > 0 ? 0 : count - 1) : (selected + by + count) % count;
    const [lane, , start, length] = step.records[selected];
    const span = view.to - view.from, inside = start >= view.from && start + length <= view.to;
    if (!inside || (length / span) * canvas.clientWidth < 8) {
      const wide = Math.min(Math.max(length * 8, SHORTEST), step.end);
      show(start + length / 2 - wide / 2, wide);
    }
    draw();
    describe(selected, x(start + length / 2), AXIS + (lane + 1) * LANE);
  }

  const actions = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => pan(-0.25),
    right: () => pan(0.25),
    all: () => show(0, step.end),
    previous: () => select(-1),
    next: () => select(1),
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "all",
    ArrowUp: "previous", ArrowDown: "next",
  };

  // What an operation is

  function describe(i, left, top) {
    const [lane, index, start, length, microBatch, version] = step.records[i];
    const [layer, phase, kind, level, bytes, flops] = step.operations[index];
    const title = document.createElement("b");
    title.textContent = step.layers[layer];
    const lines = [
      `${step.names[phase][kind]}${level < 0 ? "" : `, level ${level}`}`,
      step.lanes[lane],
      ...(version === undefined ? [] : [`micro-batch ${microBatch}, weights version ${version}`]),
      `start ${time(start, start, 9)}`,
      `duration ${time(length)}`,
      ...(bytes ? [amount(bytes, "B")] : []),
      ...(flops ? [amount(flops, "FLOP")] : []),
    ];
    tip.replaceChildren(title, lines.join("\n"));
    tip.hidden = false;
    const most = canvas.clientWidth - tip.offsetWidth - 2;
    const above = top + 12 + tip.offsetHeight > canvas.clientHeight;
    const y = above ? Math.max(2, top - tip.offsetHeight - LANE) : top + 12;
    tip.style.transform = `translate(${Math.max(2, Math.min(left + 12, most))}px, ${y}px)`;
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const left = event.clientX - box.left, top = event.clientY - box.top;
    const lane = Math.floor((top - AXIS) / LANE);
    const near = (3 / canvas.clientWidth) * (view.to - view.from); // three pixels
    const when = view.from + (left / canvas.clientWidth) * (view.to - view.from);
    let best = -1, distance = near;
    step.records.forEach(([of, , start, length], i) => {
      const away = of === lane ? Math.max(start - when, when - start - length, 0) : Infinity;
      if (away < distance) [best, distance] = [i, away];
    });
    return { left, top, best };
  }

  function point(event) {
    const { left, top, best } = at(event);
    if (best < 0) tip.hidden = true;
    else describe(best, left, top);
  }

  // Hands

  const fingers = new Map();

  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event.clientX);
    canvas.setPointerCapture(event.pointerId);
    point(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return point(event);
    const before = fingers.get(event.pointerId), moved = event.clientX - before;
    if (moved === 0) return undefined;
    tip.hidden = true;
    fingers.set(event.pointerId, event.clientX);
    if (fingers.size === 1) return pan(-moved / canvas.clientWidth);
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const was = Math.max(Math.abs(before - other), 10), is = Math.max(Math.abs(event.clientX - other), 10);
    const middle = (other - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    return zoom(was / is, middle);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    const whole = view.to - view.from >= step.end;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / canvas.clientWidth);
    } else if (whole && event.deltaY > 0) {
      return; // let the page scroll
    } else {
      zoom(1.2 ** (event.deltaY > 0 ? 1 : -1), at(event).left / canvas.clientWidth);
      point(event);
    }
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[action]();
  });
  for (const button of document.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }

  new ResizeObserver(draw).observe(canvas.parentElement);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
