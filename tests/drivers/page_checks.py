"""JavaScript that finds what some readers could not use: faint text, controls that cannot be seen, a broken outline."""

from __future__ import annotations

from typing import Final

CONTROLS: Final = "a, button, input, summary, [tabindex='0'], nav, table, img:not([alt=''])"
"""What has to have a name."""

IS_SEEN: Final = "return arguments[0].checkVisibility()"

IS_DRAWN: Final = """
document.querySelector('#state')?.dataset.state && (
  document.querySelector('#state').dataset.state !== 'starting'
  || document.querySelector('#game-empty').textContent
) && (
  document.querySelector('#games').hidden || document.querySelector('.card .score')
) && (
  document.querySelector('#game').hidden || document.querySelector('.podium li')
  || !document.querySelector('#game-empty').hidden
) && (
  document.querySelector('#cluster').hidden || document.querySelector('#instances-rows tr')
)
"""
"""Holds as soon as the view has something to show."""

FAINT: Final = """
const parse = (color) => color.match(/[\\d.]+/g).map(Number);
const over = ([r, g, b, a = 1], under) => [r, g, b].map((each, index) => each * a + under[index] * (1 - a));
const ground = (element) => {
  const layers = [];
  for (let each = element; each; each = each.parentElement) layers.push(parse(getComputedStyle(each).backgroundColor));
  return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
};
const luminance = (color) => {
  const linear = (each) => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4;
  const [r, g, b] = color.map((each) => linear(each / 255));
  return .2126 * r + .7152 * g + .0722 * b;
};
const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
return [...document.querySelectorAll('body :not(noscript, noscript *)')]
  .filter((element) => hasText(element) && element.checkVisibility())
  .map((element) => {
    const style = getComputedStyle(element), under = ground(element);
    const [high, low] = [luminance(over(parse(style.color), under)), luminance(under)].sort((a, b) => b - a);
    const px = parseFloat(style.fontSize), large = px >= 24 || (px >= 18.66 && Number(style.fontWeight) >= 700);
    return [(high + .05) / (low + .05), large ? 3 : 4.5, element.outerHTML.slice(0, 120)];
  })
  .filter(([ratio, least]) => ratio < least);
"""
"""Returns texts whose contrast is below WCAG 2.2's level AA (success criterion 1.4.3)."""

FOCUS_IS_SEEN: Final = """
const element = document.activeElement;
const isMarked = ({ outlineStyle, boxShadow }) => outlineStyle !== 'none' || boxShadow !== 'none';
const seen = (each) => each && isMarked(getComputedStyle(each))
  && each.matches(':focus-visible, :has(:focus-visible)');
return element !== document.body && Boolean(seen(element) || seen(element.closest('.card')));
"""

OUTLINE: Final = """
const shown = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
const problems = [];
if (shown('h1').length !== 1) problems.push('not one h1');
if (shown('main').length !== 1) problems.push('not one main');
if (!document.documentElement.lang) problems.push('no language');
let before = 0;
for (const each of shown('h1, h2, h3, h4')) {
  const level = Number(each.tagName[1]);
  if (level > before + 1) problems.push(`h${level} after h${before}: ${each.textContent}`);
  before = level;
}
for (const each of shown('table')) if (!each.caption) problems.push('a table without a caption');
for (const each of shown('th')) if (!each.scope) problems.push('a th without a scope');
const ids = [...document.querySelectorAll('[id]')].map((each) => each.id);
for (const each of ids) if (ids.indexOf(each) !== ids.lastIndexOf(each)) problems.push(`id ${each} twice`);
return problems;
"""
"""Returns what is wrong with headings, landmarks, tables and ids."""
