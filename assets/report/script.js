'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const last = data.steps.length - 1;
const figures = data.figures.map((states, i) => ({states, box: document.querySelectorAll('.picture')[i]}));
const tip = byId('tip');
let now = last;

// What is drawn over a figure: a line at the present step or under the mouse.
function line(figure, kind, x) {
  const svg = figure.box.querySelector('svg'), plot = figure.shown.plot;
  let mark = svg.querySelector('.' + kind);
  if (!mark) mark = svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'line'));
  mark.setAttribute('class', kind);
  for (const [name, value] of [['x1', x], ['x2', x], ['y1', plot[1]], ['y2', plot[1] + plot[3]]]) mark.setAttribute(name, value);
}

function show(index) {
  now = Math.max(0, Math.min(last, index));
  for (const figure of figures) {
    const most = figure.states.length - 1, state = figure.states['step' in figure.states[0] ? figure.at ?? most : Math.min(now, most)];
    if (figure.shown !== state) figure.box.innerHTML = state.svg;
    figure.shown = state;
    if (state.cursors?.length && last > 0) line(figure, 'cursor', state.cursors[now]);
  }
  for (const place of document.querySelectorAll('.now')) place.textContent = data.steps[now].toLocaleString('en');
  byId('slider').value = now;
  if (data.numbers) byId('values').replaceChildren(...data.numbers[now].map(([name, value]) => {
    const row = document.createElement('tr');
    for (const text of [name, value]) row.insertCell().textContent = text;
    return row;
  }));
  notes.forEach((note) => note.classList.toggle('chosen', state_of(note) === now));
  for (const part of document.querySelectorAll('.step, .answer'))
    part.classList.toggle('away', Number(part.dataset.step) !== now + 1 || (part.matches('.answer') && !part.matches('.open')));
}

// A step of a lesson that trains has a slider of its own over its figures.
for (const box of document.querySelectorAll('.figures')) {
  const moving = figures.filter((figure) => box.contains(figure.box) && figure.states.length > 1);
  if (!moving.length) continue;
  const longest = moving.reduce((best, one) => one.states.length > best.states.length ? one : best).states, end = longest.length - 1;
  const label = box.insertBefore(document.createElement('label'), box.firstChild), step = document.createElement('b');
  label.className = 'moment';
  const input = document.createElement('input');
  Object.assign(input, {type: 'range', min: 0, max: end, step: 1, value: end});
  label.append('Training step', step, input);
  const move = () => {
    for (const figure of moving) {
      figure.at = Math.max(0, figure.states.length - 1 - end + Number(input.value));
      const caption = figure.box.nextElementSibling, at = figure.states[figure.at].step.toLocaleString('en');
      caption.textContent = caption.textContent.replace(/step [\d,]+(?!.*step)/, 'step ' + at);
    }
    step.textContent = longest[input.value].step.toLocaleString('en');
  };
  input.addEventListener('input', () => { move(); show(now); });
  move();
}

// Notes: the recorded step that shows one, and its flag on the slider.
const notes = [...document.querySelectorAll('.note')];
const state_of = (note) => { const at = data.steps.findIndex((step) => step >= Number(note.dataset.step)); return at < 0 ? last : at; };
for (const note of last > 0 ? notes : []) {
  const flag = document.querySelector('.track').appendChild(document.createElement('button'));
  flag.className = 'flag';
  flag.title = note.lastChild.textContent;
  flag.style.left = `calc(8px + (100% - 16px) * ${state_of(note) / last})`;
  for (const one of [flag, note]) one.addEventListener('click', () => { play(false); show(state_of(note)); });
}

// A question of a lesson: the vote opens the answer.
function vote(choice) {
  const choices = choice.parentNode, answer = document.querySelector(`.answer[data-step="${choices.dataset.step}"]`);
  if (answer.matches('.open')) return;
  choice.classList.add('vote');
  choices.children[Number(choices.dataset.correct) - 1]?.classList.add('right');
  answer.classList.add('open');
  show(now);
}
for (const choice of document.querySelectorAll('.choices li')) {
  choice.tabIndex = 0;
  choice.setAttribute('role', 'button');
  choice.addEventListener('click', () => vote(choice));
}

const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
const nearest = (list, far) => list.reduce((best, one) => far(one) < far(best) ? one : best);

const short = (value) => value === null ? '–' : Number(value.toPrecision(4)).toLocaleString('en', {maximumFractionDigits: 12});
const text_of = (axis, value) => {
  const tick = axis.ticks.find(([at]) => Math.abs(at - value) < 1e-9);
  return tick ? tick[1] : short(value) + (axis.unit ? ' ' + axis.unit : '');
};

// The text for a place in a figure, or nothing.
function text_at(figure, place) {
  const {plot, groups, map, x: across, y: up} = figure.shown, [x, y] = place;
  if (x < plot[0] - 4 || x > plot[0] + plot[2] + 4 || y < plot[1] - 4 || y > plot[1] + plot[3] + 4) return '';
  if (map) {
    if (!map.cells.length) return 'This map has too many cells to read them here; `afterglow plot` writes them with --csv.';
    const [left, top, right, bottom] = map.corners, [rows, cols] = map.size;
    const col = Math.floor(cols * (x - left) / (right - left)), row = Math.floor(rows * (y - top) / (bottom - top));
    const value = col >= 0 && col < cols ? map.cells[row * cols + col] : null;
    return value == null ? '' : `${map.rows[row] ?? row} · ${map.cols[col] ?? col}\n${map.name} ${short(value)}`;
  }
  const dots = groups.flatMap((group) => group.points).filter((point) => point[2] > 0);
  const dot = dots.length ? nearest(dots, (one) => distance(one, place)) : null;
  if (dot && distance(dot, place) < dot[2] + 8)
    return `${dot[5] ? dot[5] + '\n' : ''}${across.label} ${text_of(across, dot[3])}\n${up.label} ${text_of(up, dot[4])}`;
  const curves = groups.filter((group) => group.name && group.points.length && group.points[0][2] === 0);
  if (!curves.length) return '';
  const points = curves.map((curve) => nearest(curve.points, (one) => Math.abs(one[0] - x)));
  const best = nearest(points, (one) => Math.abs(one[0] - x));
  line(figure, 'under', best[0]);
  const read = curves.map((curve, i) => [curve.name, points[i]]).filter(([, point]) => Math.abs(point[0] - best[0]) < 6);
  return `${across.label} ${text_of(across, best[3])}\n` + read.map(([name, point]) => `${name}  ${text_of(up, point[4])}`).join('\n');
}

for (const figure of figures) {
  const hide = () => { tip.hidden = true; figure.box.querySelectorAll('.under').forEach((mark) => mark.remove()); };
  figure.box.addEventListener('pointerleave', hide);
  figure.box.addEventListener('pointermove', (event) => {
    const svg = figure.box.querySelector('svg'), box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const text = text_at(figure, [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale]);
    if (!text) return hide();
    tip.textContent = text;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.min(event.pageX + 14, room) + 'px';
    tip.style.top = event.pageY + 14 + 'px';
  });
}

let timer = 0;
function play(on) {
  clearInterval(timer);
  timer = 0;
  if (byId('play')) byId('play').textContent = on ? '❚❚' : '▶';
  if (!on) return;
  if (now === last) show(0);
  timer = setInterval(() => now < last ? show(now + 1) : play(false), 400);
}

if (last > 0) {
  byId('time').hidden = false;
  byId('slider').max = last;
  byId('slider').addEventListener('input', (event) => { play(false); show(Number(event.target.value)); });
  byId('play')?.addEventListener('click', () => play(!timer));
  byId('next')?.addEventListener('click', () => show(now + 1));
  byId('ends').firstChild.textContent = data.steps[0].toLocaleString('en');
  byId('ends').lastChild.textContent = data.steps[last].toLocaleString('en');
  addEventListener('keydown', (event) => {
    const choice = document.querySelector('.step:not(.away) .choices')?.children[Number(event.key) - 1];
    if (choice) return vote(choice);
    if (event.key === 'Enter' && event.target.matches('.choices li')) return vote(event.target);
    const by = {ArrowLeft: -1, ArrowRight: 1, ...(data.numbers ? {} : {PageUp: -1, PageDown: 1})}[event.key];
    if (by === undefined || event.ctrlKey || event.altKey || event.metaKey || event.target.type === 'range') return;
    event.preventDefault();
    play(false);
    show(now + by);
  });
}
const headline = data.numbers && document.querySelector('.numbers');
if (headline) headline.replaceChildren(...data.numbers[last].slice(0, 3).map(([name, value]) => {
  const box = document.createElement('div');
  box.appendChild(document.createElement('b')).textContent = value;
  box.appendChild(document.createElement('small')).textContent = name;
  return box;
}));
if (byId('copy')) byId('copy').hidden = !navigator.clipboard;
byId('copy')?.addEventListener('click', () => navigator.clipboard.writeText(byId('command').textContent));
if (byId('save')) byId('save').hidden = !data.recipe;
byId('save')?.addEventListener('click', () => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(data.recipe, null, 2)], {type: 'application/json'}));
  link.download = data.file;
  link.click();
});
show(data.numbers ? last : 0);
