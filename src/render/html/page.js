"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");

  // Numbers as the rest of the page writes them.
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  // Ties go to the even digit, as in the texts.
  const fixed = (n, digits) => {
    const scaled = n * 10 ** digits, low = Math.floor(scaled);
    const even = scaled - low === 0.5 ? low + (low % 2) : Math.round(scaled);
    return (even / 10 ** digits).toFixed(digits);
  };
  const bytes = (n) => {
    if (n < 1024) return `${n} B`;
    let unit = 0;
    while (unit < 6 && n >= 1023.95) { n /= 1024; unit++; }
    return `${fixed(n, unit < 3 || n >= 99.995 ? 1 : 2)} ${UNITS[unit]}`;
  };
  const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, " ");
  const duration = (us) => {
    if (us < 1e3) return `${us} µs`;
    if (us < 999950) return `${fixed(us / 1e3, 1)} ms`;
    if (us < 59995000) return `${fixed(us / 1e6, 2)} s`;
    const s = Math.round(us / 1e6);
    if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
    return `${Math.floor(s / 3600)} h ${String(Math.floor(s % 3600 / 60)).padStart(2, "0")} min`;
  };
  const percent = (part, whole) => (whole ? fixed(100 * part / whole, 1) : "0.0") + " %";

  // Elements whose texts are only ever texts.
  const make = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in element && name !== "list") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  };
  const swatch = (colour, pattern = null) => {
    const box = make("i");
    const lines = (degrees) => `repeating-linear-gradient(${degrees}deg, transparent 0 2px, ${pattern[1]} 2px 3.2px)`;
    box.style.backgroundColor = colour;
    if (pattern) {
      const images = { Hatch: [lines(135)], BackHatch: [lines(45)], Cross: [lines(45), lines(135)], Dots: [lines(0)] };
      box.style.backgroundImage = images[pattern[0]].join(",");
    }
    return box;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const text = (number) => data.strings[number];
  const siteOf = (number) => {
    const [name, fn, colour, stack, stacks, pattern] = data.sites[number];
    return { name: text(name), fn: fn === null ? "" : text(fn), colour, stack, stacks, pattern };
  };
  const base = (name) => name.replace(/^.*[/\\](?=[^/\\]*$)/, "");

  const place = (x, y) => {
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, x + 16 + width > innerWidth ? x - width - 16 : x + 16)}px`;
    tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - height - 6))}px`;
  };
  const frames = (stack) => {
    if (stack < 0) return null;
    const [list, more] = data.stacks[stack];
    // Where a package is installed tells nothing, and would hide the function.
    const items = list.map((frame) => make("li", {}, text(frame).replace(/^.*[/\\](?:site|dist)-packages[/\\]/, "")));
    if (more > 0) items.push(make("li", {}, `… ${more} outer frames`));
    return make("ol", {}, ...items);
  };

  // Tables.
  const sortable = (table) => {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const key = (row, column) => {
      const cell = row.cells[column];
      return "key" in cell.dataset ? Number(cell.dataset.key) : cell.textContent.trim().toLowerCase();
    };
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("number");
        const before = head.getAttribute("aria-sort");
        const down = before === null ? numeric : before === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = original.map((row, at) => [key(row, column), at, row]);
        rows.sort(([a, i], [b, j]) => {
          const order = a < b ? -1 : a > b ? 1 : 0;
          return (down ? -order : order) || i - j;
        });
        body.append(...rows.map((row) => row[2]));
      });
    });
  };
  const filterable = (table) => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 6) return;
    const input = make("input", { type: "search", placeholder: "filter rows", "aria-label": "Filter the rows of the table below" });
    const status = make("span", { role: "status" });
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const full = [...row.querySelectorAll("code[title]")].map((code) => code.title).join(" ");
        const content = `${row.textContent} ${full}`.toLowerCase();
        row.hidden = !words.every((word) => content.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      status.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
    });
    table.closest(".scroll").before(make("div", { className: "tools" }, input, status));
  };
  for (const table of document.querySelectorAll("table.data")) {
    sortable(table);
    filterable(table);
  }

  // Flame graphs: a frame's place is a part of the whole, so zooming is a change of the whole.
  for (const graph of document.querySelectorAll(".flame")) {
    const frames = [...graph.querySelectorAll(".frame")].map((element) => {
      const { start, share, row } = element.dataset;
      return { element, start: Number(start), share: Number(share), row: Number(row), name: element.getAttribute("aria-label") };
    });
    const end = (frame) => frame.start + frame.share;
    const contains = (outer, inner) => outer.start <= inner.start + 2e-6 && end(outer) >= end(inner) - 2e-6;
    const zoom = (to) => {
      for (const frame of frames) {
        const outer = frame.row < to.row && contains(frame, to);
        const inner = frame.row >= to.row && contains(to, frame);
        frame.element.style.display = outer || inner ? "" : "none";
        frame.element.setAttribute("x", outer ? "0%" : `${100 * ((frame.start - to.start) / to.share)}%`);
        frame.element.setAttribute("width", outer ? "100%" : `${100 * (frame.share / to.share)}%`);
      }
    };
    const focus = (frame) => {
      if (!frame || frame.element.style.display === "none") return;
      frames.forEach((other) => other.element.setAttribute("tabindex", other === frame ? "0" : "-1"));
      frame.element.focus();
    };
    const describe = (frame) => {
      const [, name, size, part] = frame.name.match(/^(.*), ([^,]*), ([^,]*)$/s);
      tip.replaceChildren(make("b", {}, name), make("p", {}, `${size}, ${part} of what is live`));
    };
    for (const frame of frames) {
      const { element } = frame;
      element.addEventListener("click", () => zoom(frame));
      element.addEventListener("pointermove", (event) => { describe(frame); place(event.clientX, event.clientY); });
      element.addEventListener("pointerleave", () => { tip.hidden = true; });
      element.addEventListener("focus", () => {
        if (!element.matches(":focus-visible")) return;
        const box = element.getBoundingClientRect();
        describe(frame);
        place(box.left, box.bottom);
      });
      element.addEventListener("blur", () => { tip.hidden = true; });
      element.addEventListener("keydown", (event) => {
        const row = frames.filter((other) => other.row === frame.row && other.element.style.display !== "none");
        const actions = {
          ArrowDown: () => focus(frames.find((other) => other.row === frame.row + 1 && contains(frame, other))),
          ArrowUp: () => focus(frames.find((other) => other.row === frame.row - 1 && contains(other, frame))),
          ArrowRight: () => focus(row[row.indexOf(frame) + 1]),
          ArrowLeft: () => focus(row[row.indexOf(frame) - 1]),
          Enter: () => zoom(frame),
          Escape: () => zoom(frames[0]),
        };
        if (!actions[event.key]) return;
        event.preventDefault();
        actions[event.key]();
      });
    }
  }

  // The timeline of one device.
  const LEFT = 66, RIGHT = 14, TOP = 22, BOTTOM = 26;

  class Timeline {
    constructor(host, device) {
      this.device = device;
      this.host = host;
      this.first = device.edges[0];
      this.last = device.edges[device.edges.length - 1];
      this.view = [this.first, this.last];
      this.mode = "lines";
      this.cursor = this.instantAt(device.moment, true);
      this.hovered = null;
      this.scaleToReserved = true;
      this.build();
      host.hidden = false;
      new ResizeObserver(() => this.draw()).observe(this.canvas);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      addEventListener("beforeprint", () => this.draw(true));
      addEventListener("afterprint", () => this.draw());
      this.showLive();
    }

    build() {
      const button = (label, title, action) => {
        const found = make("button", { type: "button", title }, label);
        found.addEventListener("click", () => { action(found); this.draw(); });
        return found;
      };
      const modes = [["lines", "by line"], ["blocks", "by block"]].map(([mode, label]) => {
        const title = mode === "lines" ? "One band a line of code" : "One ribbon a block, oldest at the bottom";
        const found = button(label, title, () => {
          this.mode = mode;
          modes.forEach((other) => other.setAttribute("aria-pressed", String(other === found)));
          this.legend();
        });
        found.setAttribute("aria-pressed", String(mode === this.mode));
        return found;
      });
      const scale = button("reserved", "Show what is reserved, or only what is live", () => {
        this.scaleToReserved = !this.scaleToReserved;
        scale.setAttribute("aria-pressed", String(this.scaleToReserved));
      });
      scale.setAttribute("aria-pressed", "true");
      const tools = make("div", { className: "tools" }, ...modes, scale,
        button("+", "Zoom in (+)", () => this.zoom(0.5)), button("−", "Zoom out (−)", () => this.zoom(2)),
        button("◀", "Earlier (Shift ←)", () => this.pan(-0.25)), button("▶", "Later (Shift →)", () => this.pan(0.25)),
        button("all", "The whole trace (0)", () => this.reset()),
        make("span", { className: "grow" }),
        make("span", {}, "click an instant, then wheel to zoom, drag to pan, ← → to step"));
      const d = this.device;
      this.canvas = make("canvas", {
        tabIndex: 0, role: "img",
        "aria-label": `Memory of device ${d.ordinal} over ${count(d.events)} events. Arrow keys move the instant, plus and minus zoom, up and down choose a band.`,
      });
      this.list = make("ul", { className: "legend" });
      this.status = make("p", { className: "visually-hidden", role: "status" });
      this.live = make("div", { className: "live" });
      this.host.append(tools, this.canvas, this.list, this.status, this.live);
      this.legend();
      this.listen();
    }

    legend() {
      this.list.replaceChildren();
      for (const band of [...this.device.bands].reverse()) {
        if (band.site === null && this.mode === "blocks") continue;
        const name = band.site === null ? "all other lines" : siteOf(band.site).name;
        this.list.append(make("li", { title: name }, swatch(band.colour, band.pattern), make("code", {}, base(name))));
      }
      if (this.mode === "blocks" && this.device.others > 0) {
        this.list.append(make("li", {}, swatch(css("--muted")), `${count(this.device.others)} smaller or shorter blocks together`));
      }
    }

    // Positions.
    width() { return this.canvas.clientWidth; }
    height() { return this.canvas.clientHeight; }
    x(event) {
      const [from, to] = this.view;
      return LEFT + (event - from) / (to - from) * (this.width() - LEFT - RIGHT);
    }
    event(x) {
      const [from, to] = this.view;
      return from + (x - LEFT) / (this.width() - LEFT - RIGHT) * (to - from);
    }
    y(value) { return this.height() - BOTTOM - value / this.top * (this.height() - TOP - BOTTOM); }
    value(y) { return (this.height() - BOTTOM - y) / (this.height() - TOP - BOTTOM) * this.top; }
    column(event) {
      const edges = this.device.edges;
      let low = 0, high = edges.length - 2;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (edges[middle] <= event) low = middle; else high = middle - 1;
      }
      return low;
    }
    // The last instant up to this state, as a row.
    instantAt(state) {
      const all = this.device.instants;
      let low = 0, high = all.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (all[middle][0] <= state) low = middle; else high = middle - 1;
      }
      return low;
    }
    // State k follows event k − 1, so it is drawn from there on.
    position(state) { return Math.max(this.first, state - 1); }

    zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
      const [from, to] = this.view;
      const span = Math.min(Math.max((to - from) * factor, Math.min(8, this.last - this.first)), this.last - this.first);
      const share = (around - from) / (to - from);
      this.move(around - share * span, span);
    }
    pan(share) { this.move(this.view[0] + share * (this.view[1] - this.view[0]), this.view[1] - this.view[0]); }
    move(from, span) {
      from = Math.max(this.first, Math.min(from, this.last - span));
      this.view = [from, from + span];
    }
    reset() { this.view = [this.first, this.last]; }

    // What is stacked, lowest first: [site, colour, pattern, bytes at an event, source].
    stackAt(event) {
      const d = this.device;
      if (this.mode === "lines") {
        const column = this.column(event);
        return d.bands.map((band) => ({ band, bytes: band.values[column] }));
      }
      const state = Math.floor(event) + 1;
      const stack = [{ rest: true, bytes: d.rest[this.instantAt(state)] }];
      for (const ribbon of d.ribbons) {
        if (ribbon[5] <= state && (ribbon[7] < 0 || state < ribbon[7])) stack.push({ ribbon, bytes: ribbon[3] });
      }
      return stack;
    }
    hit(x, y) {
      if (x < LEFT || x > this.width() - RIGHT || y > this.height() - BOTTOM) return null;
      const event = Math.max(this.first, Math.min(this.event(x), this.last - 1e-6));
      let left = this.value(y);
      for (const part of this.stackAt(event)) {
        if (left <= part.bytes) return { ...part, event };
        left -= part.bytes;
      }
      return { event, above: true };
    }

    // What is known about a part, as elements.
    describe(part) {
      const d = this.device;
      const column = this.column(part.event);
      const total = d.bands.reduce((sum, band) => sum + band.values[column], 0);
      const where = d.edges[column + 1] - d.edges[column] > 1
        ? `events ${count(d.edges[column])}–${count(d.edges[column + 1] - 1)}, where most is live`
        : `event ${count(d.edges[column])}`;
      if (part.above) {
        return [make("p", {}, `${bytes(total)} live, at most ${bytes(d.reserved[column] || 0)} reserved`), make("p", {}, where)];
      }
      if (part.rest) {
        return [make("p", {}, `${bytes(part.bytes)} in smaller or shorter blocks`)];
      }
      if (part.ribbon) {
        const [site, stack, address, size, requested, born, freed, done, us] = part.ribbon;
        const found = siteOf(site);
        const span = [
          born < 0 ? "there before the recording" : `allocated at event ${count(born - 1)}`,
          freed < 0 ? "never freed" : `freed at event ${count(freed - 1)}`,
          freed >= 0 && done !== freed ? (done < 0 ? "then waiting for a stream" : `back in its pool at event ${count(done - 1)}`) : "",
        ].filter(Boolean).join(", ");
        return [
          make("b", {}, swatch(found.colour, found.pattern), found.name), " ", make("span", { className: "function" }, found.fn),
          make("p", {}, `${bytes(size)}, ${bytes(requested)} requested, at ${address}`),
          make("p", {}, span + (us >= 0 ? ` (${duration(us)})` : "")),
          frames(stack),
        ];
      }
      const band = part.band;
      const most = band.values.reduce((a, b) => Math.max(a, b), 0);
      const figures = `${bytes(part.bytes)} of ${bytes(total)} live (${percent(part.bytes, total)}), at most ${bytes(most)}`;
      if (band.site === null) return [make("b", {}, "all other lines"), make("p", {}, figures), make("p", {}, where)];
      const found = siteOf(band.site);
      const held = band.values.map((value) => value > 0);
      const begin = d.edges[held.indexOf(true)], end = d.edges[held.lastIndexOf(true) + 1];
      return [
        make("b", {}, swatch(band.colour, band.pattern), found.name), " ", make("span", { className: "function" }, found.fn),
        make("p", {}, figures), make("p", {}, where),
        make("p", {}, `holds memory from event ${count(begin)} to ${count(end - 1)}`),
        found.stack < 0 ? null : make("p", { className: "note" }, found.stacks > 1 ? `the stack that allocated most, of ${count(found.stacks)}:` : "its stack:"),
        frames(found.stack),
      ];
    }

    listen() {
      const canvas = this.canvas;
      let drag = null;
      const local = (event) => {
        const box = canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      canvas.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        drag = { x: event.clientX, from: this.view[0], moved: false };
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        const [x, y] = local(event);
        if (drag && Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
        if (drag && drag.moved) {
          const span = this.view[1] - this.view[0];
          canvas.classList.add("dragging");
          this.move(drag.from - (event.clientX - drag.x) / (this.width() - LEFT - RIGHT) * span, span);
          tip.hidden = true;
          this.draw();
          return;
        }
        const part = this.hit(x, y);
        this.hovered = part;
        if (part) {
          tip.replaceChildren(...this.describe(part).filter(Boolean));
          place(event.clientX, event.clientY);
        } else {
          tip.hidden = true;
        }
        this.draw();
      });
      canvas.addEventListener("pointerup", (event) => {
        const [x] = local(event);
        if (drag && !drag.moved && x >= LEFT) this.select(this.instantAt(Math.floor(this.event(x)) + 1));
        drag = null;
        canvas.classList.remove("dragging");
      });
      canvas.addEventListener("pointerleave", () => { this.hovered = null; tip.hidden = true; this.draw(); });
      canvas.addEventListener("blur", () => { tip.hidden = true; });
      canvas.addEventListener("dblclick", (event) => { this.zoom(0.25, this.event(local(event)[0])); this.draw(); });
      canvas.addEventListener("wheel", (event) => {
        // The wheel scrolls the page, until the picture was clicked.
        if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.width());
        else this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.event(local(event)[0]));
        event.preventDefault();
        this.draw();
      }, { passive: false });
      canvas.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      const last = this.device.instants.length - 1;
      const actions = {
        ArrowLeft: () => (event.shiftKey ? this.pan(-0.25) : this.select(Math.max(0, this.cursor - 1))),
        ArrowRight: () => (event.shiftKey ? this.pan(0.25) : this.select(Math.min(last, this.cursor + 1))),
        PageUp: () => this.select(Math.max(0, this.cursor - 20)),
        PageDown: () => this.select(Math.min(last, this.cursor + 20)),
        Home: () => this.select(0),
        End: () => this.select(last),
        ArrowUp: () => this.step(1),
        ArrowDown: () => this.step(-1),
        "+": () => this.zoom(0.5, this.position(this.device.instants[this.cursor][0])),
        "=": () => this.zoom(0.5, this.position(this.device.instants[this.cursor][0])),
        "-": () => this.zoom(2),
        0: () => this.reset(),
        Escape: () => { tip.hidden = true; this.hovered = null; },
      };
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
      this.draw();
    }

    // The next part above or below at the chosen instant.
    step(by) {
      const at = this.position(this.device.instants[this.cursor][0]);
      const parts = this.stackAt(at).filter((part) => part.bytes > 0);
      if (!parts.length) return;
      this.row = Math.max(0, Math.min(parts.length - 1, (this.row ?? (by > 0 ? -1 : parts.length)) + by));
      const part = { ...parts[this.row], event: at };
      this.hovered = part;
      const elements = this.describe(part).filter(Boolean);
      tip.replaceChildren(...elements);
      this.status.textContent = tip.textContent;
      const box = this.canvas.getBoundingClientRect();
      const below = parts.slice(0, this.row).reduce((sum, other) => sum + other.bytes, 0);
      place(box.left + this.x(at), box.top + this.y(below + part.bytes / 2));
    }

    select(row) {
      this.cursor = row;
      const at = this.position(this.device.instants[row][0]);
      const span = this.view[1] - this.view[0];
      if (at < this.view[0] || at > this.view[1]) this.move(at - span / 2, span);
      this.showLive();
      this.draw();
    }

    showLive() {
      const [state, time, reserved, total, blocks, otherBytes, otherBlocks, otherSites, sites] = this.device.instants[this.cursor];
      const when = state === 0 ? "before the first event" : `after event ${count(state - 1)}`;
      const heading = `Live ${when}: ${bytes(total)} in ${count(blocks)} blocks, ${bytes(reserved)} reserved`;
      const row = (name, size, number) => make("tr", {},
        make("td", {}, ...name), make("td", { className: "number", "data-key": size }, bytes(size)),
        make("td", { className: "number", "data-key": total ? size / total : 0 }, percent(size, total)),
        make("td", { className: "number", "data-key": number }, count(number)));
      const rows = sites.map(([number, size, n]) => {
        const found = siteOf(number);
        const line = row([swatch(found.colour, found.pattern), make("code", { title: found.name }, base(found.name)), " ", make("span", { className: "function" }, found.fn)], size, n);
        line.tabIndex = -1;
        const show = (x, y) => {
          tip.replaceChildren(...[make("b", {}, found.name), frames(found.stack)].filter(Boolean));
          place(x, y);
        };
        line.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
        line.addEventListener("pointerleave", () => { tip.hidden = true; });
        return line;
      });
      if (otherSites > 0) rows.push(row([`${count(otherSites)} other lines`], otherBytes, otherBlocks));
      const head = make("tr", {}, make("th", { scope: "col" }, "line"), ...["live", "share", "blocks"].map((title) => make("th", { scope: "col", className: "number" }, title)));
      const table = make("table", { className: "data" }, make("thead", {}, head), make("tbody", {}, ...rows));
      const note = time >= 0 ? ` · ${duration(time)} after the first instant` : "";
      this.live.replaceChildren(make("h3", {}, heading + note), make("div", { className: "scroll" }, table));
      sortable(table);
      this.status.textContent = heading;
    }

    // Drawing.
    draw(printing = false) {
      const canvas = this.canvas;
      const [width, height] = [this.width(), this.height()];
      if (!width) return;
      const ratio = Math.max(printing ? 2 : 1, devicePixelRatio || 1);
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const c = canvas.getContext("2d");
      c.scale(ratio, ratio);
      const d = this.device;
      const ink = printing ? "#000" : css("--ink"), muted = printing ? "#444" : css("--muted"), line = printing ? "#ccc" : css("--line");
      const from = this.column(this.view[0]), to = this.column(this.view[1]);
      const sums = (at) => d.bands.reduce((sum, band) => sum + band.values[at], 0);
      let top = 1;
      for (let at = from; at <= to; at++) {
        top = Math.max(top, this.scaleToReserved ? d.reserved[at] || 0 : 0, sums(at));
      }
      if (this.scaleToReserved && d.capacity && d.capacity / 4 <= top) top = Math.max(top, d.capacity);
      this.top = top * 1.04;
      c.fillStyle = printing ? "#fff" : css("--card");
      c.fillRect(0, 0, width, height);
      this.axes(c, ink, muted, line);
      c.save();
      c.beginPath();
      c.rect(LEFT, TOP - 12, width - LEFT - RIGHT, height - TOP - BOTTOM + 12);
      c.clip();
      if (this.scaleToReserved) this.area(c, from, to, (at) => d.reserved[at] || 0, printing ? "#eee" : css("--idle"));
      if (this.mode === "lines") this.bands(c, from, to); else this.ribbons(c, from, to, muted);
      if (this.scaleToReserved) this.outline(c, from, to, ink);
      this.lines(c, ink, muted, printing);
      c.restore();
      this.markLabels(c, ink, printing);
    }

    area(c, from, to, value, fill) {
      c.fillStyle = fill;
      c.beginPath();
      c.moveTo(this.x(this.device.edges[from]), this.y(0));
      this.steps(c, from, to, value);
      c.lineTo(this.x(this.device.edges[to + 1]), this.y(0));
      c.fill();
    }
    steps(c, from, to, value) {
      for (let at = from; at <= to; at++) {
        c.lineTo(this.x(this.device.edges[at]), this.y(value(at)));
        c.lineTo(this.x(this.device.edges[at + 1]), this.y(value(at)));
      }
    }

    pattern(c, colour, [kind, ink]) {
      const tile = make("canvas", { width: 8, height: 8 });
      const t = tile.getContext("2d");
      t.fillStyle = colour;
      t.fillRect(0, 0, 8, 8);
      t.strokeStyle = t.fillStyle = ink;
      t.beginPath();
      if (kind === "Dots") t.fillRect(3, 3, 2, 2);
      if (kind === "Hatch" || kind === "Cross") for (const s of [-8, 0, 8]) { t.moveTo(s, 8); t.lineTo(s + 8, 0); }
      if (kind === "BackHatch" || kind === "Cross") for (const s of [-8, 0, 8]) { t.moveTo(s, 0); t.lineTo(s + 8, 8); }
      t.stroke();
      return c.createPattern(tile, "repeat");
    }

    bands(c, from, to) {
      const sums = new Array(to - from + 1).fill(0);
      for (const band of this.device.bands) {
        const lower = sums.slice();
        for (let at = from; at <= to; at++) sums[at - from] += band.values[at];
        c.fillStyle = band.pattern ? this.pattern(c, band.colour, band.pattern) : band.colour;
        const bright = !this.hovered || !this.hovered.band || this.hovered.band === band;
        c.globalAlpha = bright ? 1 : 0.35;
        c.beginPath();
        c.moveTo(this.x(this.device.edges[from]), this.y(lower[0]));
        this.steps(c, from, to, (at) => sums[at - from]);
        for (let at = to; at >= from; at--) {
          c.lineTo(this.x(this.device.edges[at + 1]), this.y(lower[at - from]));
          c.lineTo(this.x(this.device.edges[at]), this.y(lower[at - from]));
        }
        c.fill();
        c.globalAlpha = 1;
      }
    }

    ribbons(c, from, to, muted) {
      // Every event where something begins or ends would do; a step a pixel is all that can be seen.
      const d = this.device;
      const steps = Math.min(900, Math.max(2, Math.round(this.width() - LEFT - RIGHT)));
      const [first, last] = this.view;
      const events = [...new Set(Array.from({ length: steps }, (_, at) => Math.floor(first + (last - first) * at / steps)))];
      const edge = (at) => this.x(at < events.length ? events[at] : last);
      const sums = events.map((event) => d.rest[this.instantAt(event + 1)]);
      c.fillStyle = muted;
      c.globalAlpha = 0.5;
      sums.forEach((sum, at) => c.fillRect(edge(at), this.y(sum), edge(at + 1) - edge(at) + 0.5, this.y(0) - this.y(sum)));
      c.globalAlpha = 1;
      const index = (state) => {
        let low = 0, high = events.length;
        while (low < high) {
          const middle = (low + high) >> 1;
          if (events[middle] + 1 < state) low = middle + 1; else high = middle;
        }
        return low;
      };
      c.lineWidth = 0.5;
      for (const ribbon of d.ribbons) {
        const begin = ribbon[5] < 0 ? 0 : index(ribbon[5]);
        const end = ribbon[7] < 0 ? events.length : index(ribbon[7]);
        if (begin >= end) continue;
        c.fillStyle = data.sites[ribbon[0]][2];
        const hovered = this.hovered && this.hovered.ribbon;
        c.globalAlpha = !hovered || hovered === ribbon ? 1 : 0.4;
        c.beginPath();
        c.moveTo(edge(begin), this.y(sums[begin]));
        const lower = sums.slice(begin, end);
        for (let at = begin; at < end; at++) {
          sums[at] += ribbon[3];
          c.lineTo(edge(at), this.y(sums[at]));
          c.lineTo(edge(at + 1), this.y(sums[at]));
        }
        for (let at = end - 1; at >= begin; at--) {
          c.lineTo(edge(at + 1), this.y(lower[at - begin]));
          c.lineTo(edge(at), this.y(lower[at - begin]));
        }
        c.fill();
        if (ribbon[3] / this.top * (this.height() - TOP - BOTTOM) > 2.5) {
          c.strokeStyle = "rgb(255 255 255 / .65)";
          c.stroke();
        }
        c.globalAlpha = 1;
      }
    }

    outline(c, from, to, ink) {
      c.strokeStyle = ink;
      c.lineWidth = 1.1;
      c.beginPath();
      this.steps(c, from, to, (at) => this.device.reserved[at] || 0);
      c.stroke();
    }

    axes(c, ink, muted, line) {
      const [width, height] = [this.width(), this.height()];
      c.font = `11px ${css("--sans")}`;
      c.lineWidth = 1;
      let step = 2 ** Math.floor(Math.log2(this.top / 3));
      if (this.top / step > 6) step *= 2;
      c.textAlign = "right";
      c.textBaseline = "middle";
      for (let value = 0; value <= this.top; value += step) {
        const y = Math.round(this.y(value)) + 0.5;
        c.strokeStyle = line;
        c.beginPath();
        c.moveTo(LEFT, y);
        c.lineTo(width - RIGHT, y);
        c.stroke();
        c.fillStyle = muted;
        c.fillText(value === 0 ? "0" : bytes(value).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " "), LEFT - 8, y);
      }
      const span = this.view[1] - this.view[0];
      const raw = span / Math.max(2, width / 130);
      const power = 10 ** Math.floor(Math.log10(raw));
      const tick = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw));
      c.textBaseline = "top";
      c.textAlign = "center";
      for (let event = Math.ceil(this.view[0] / tick) * tick; event <= this.view[1]; event += tick) {
        c.fillText(count(event), this.x(event), height - BOTTOM + 7);
      }
      c.textAlign = "left";
      c.fillText("event", 8, height - BOTTOM + 7);
    }

    lines(c, ink, muted, printing) {
      const d = this.device;
      const alarm = printing ? "#b3202c" : css("--alarm");
      if (this.scaleToReserved && d.capacity && d.capacity <= this.top) {
        c.setLineDash([5, 4]);
        c.strokeStyle = muted;
        c.beginPath();
        c.moveTo(LEFT, this.y(d.capacity));
        c.lineTo(this.width() - RIGHT, this.y(d.capacity));
        c.stroke();
        c.setLineDash([]);
        c.fillStyle = muted;
        c.textAlign = "left";
        c.textBaseline = "bottom";
        c.fillText(`capacity ${bytes(d.capacity)}`, LEFT + 6, this.y(d.capacity) - 2);
      }
      const styles = { oom: [alarm, 1.5, []], peak: [ink, 1, [2, 2]], step: [muted, 0.5, [1, 3]] };
      for (const mark of d.marks) {
        [c.strokeStyle, c.lineWidth] = styles[mark.kind];
        c.setLineDash(styles[mark.kind][2]);
        c.beginPath();
        c.moveTo(this.x(mark.x), TOP - 8);
        c.lineTo(this.x(mark.x), this.y(0));
        c.stroke();
      }
      c.setLineDash([]);
      const x = this.x(this.position(d.instants[this.cursor][0]));
      c.strokeStyle = printing ? "#2b5f94" : css("--accent");
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(x, TOP - 8);
      c.lineTo(x, this.y(0));
      c.stroke();
    }

    markLabels(c, ink, printing) {
      c.textBaseline = "alphabetic";
      c.font = `11px ${css("--sans")}`;
      const taken = [];
      // They come in the order of importance.
      for (const mark of this.device.marks) {
        const x = this.x(mark.x);
        if (x < LEFT - 1 || x > this.width() - RIGHT + 1) continue;
        const room = c.measureText(mark.label).width + 8;
        const options = [[x + 3, "left"], [x - 3 - room + 8, "left"]].filter(([left]) => left >= LEFT && left + room <= this.width() + 4);
        const free = options.find(([left]) => taken.every(([a, b]) => left + room < a || left > b));
        if (!free) continue;
        taken.push([free[0], free[0] + room]);
        c.fillStyle = mark.kind === "oom" ? (printing ? "#b3202c" : css("--alarm")) : mark.kind === "step" ? css("--muted") : ink;
        c.textAlign = "left";
        c.fillText(mark.label, free[0], 12);
      }
    }
  }

  for (const host of document.querySelectorAll("[data-plot]")) {
    const device = data.devices[Number(host.dataset.plot)];
    if (device) new Timeline(host, device);
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
