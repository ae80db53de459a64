import type { Page } from '../../harness/browser.ts'

/*
 * Finds texts that a reader cannot see in full. It runs in the browser. It opens all details first. A text is cut off if
 * it leaves the page, a box that hides its overflow, or a control. Two texts must not lie on each other. Boxes that the
 * reader can scroll, such as a wide table, may hide a part. A box of one pixel is for screen readers only. A select may
 * shorten its choice, because it shows all of it when it is opened.
 */
const script = `(() => {
  const found = new Set()
  for (const one of document.querySelectorAll('details')) one.open = true
  const root = document.documentElement
  if (root.scrollWidth > root.clientWidth) found.add('the page is ' + (root.scrollWidth - root.clientWidth) + ' px too wide')
  const said = (text) => text.replace(/\\s+/g, ' ').trim().slice(0, 60)
  const boxes = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node; (node = walker.nextNode()); ) {
    const parent = node.parentElement
    if (node.data.trim() === '' || parent.closest('.hidden, .skip, option, script, style, noscript, template')) continue
    if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue
    const range = document.createRange()
    let tiny = false
    for (let box = parent; box !== document.body; box = box.parentElement) {
      const { width, height } = box.getBoundingClientRect()
      tiny ||= getComputedStyle(box).display !== 'contents' && (width <= 1 || height <= 1)
    }
    if (tiny) continue
    for (const word of node.data.matchAll(/(?<=^|\\s)\\p{L}{2,14}(?=[.,:]?(?:\\s|$))/gu)) {
      range.setStart(node, word.index)
      range.setEnd(node, word.index + word[0].length)
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.add('broken inside the word ' + word[0] + ': ' + said(node.data))
    }
    range.selectNodeContents(node)
    for (const rect of range.getClientRects()) {
      if (rect.width < 1 || rect.height < 1) continue
      let [scrolls, floats, hidden] = [false, false, false]
      for (let box = parent; box !== document.body; box = box.parentElement) {
        const { overflowX, overflowY, display, position } = getComputedStyle(box)
        if (position === 'sticky' || position === 'fixed') floats = true
        if (display === 'inline' || display === 'contents') continue
        const edge = box.getBoundingClientRect()
        // An ellipsis may shorten data, such as a long address, but none of our texts.
        const shortened = getComputedStyle(box).textOverflow === 'ellipsis' && !node.data.includes('⟦')
        if (edge.width <= 1 || edge.height <= 1 || shortened) hidden = true
        if (hidden) break
        const beyond = rect.left < edge.left - 1 || rect.right > edge.right + 1
        if (overflowX === 'auto' || overflowX === 'scroll') scrolls = true
        if (scrolls) break
        const cut = (overflowX === 'hidden' || overflowX === 'clip') && beyond
        const below = (overflowY === 'hidden' || overflowY === 'clip') && (rect.top < edge.top - 1 || rect.bottom > edge.bottom + 1)
        const control = box.matches('button, a, summary, label, .tag, .status, th, td, dt, dd, li, p, h1, h2, h3, legend') && beyond
        if (cut || below) found.add('cut off: ' + said(node.data))
        else if (control) found.add('sticks out of ' + box.localName + ': ' + said(node.data))
      }
      if (!scrolls && !hidden && (rect.left < -1 || rect.right > root.clientWidth + 1)) found.add('outside of the page: ' + said(node.data))
      if (!scrolls && !floats && !hidden) boxes.push({ rect, text: said(node.data) })
    }
  }
  for (const [at, one] of boxes.entries())
    for (const other of boxes.slice(at + 1)) {
      const width = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left)
      const height = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top)
      if (width > 2 && height > 0.5 * Math.min(one.rect.height, other.rect.height)) found.add('on each other: ' + one.text + ' / ' + other.text)
    }
  const pen = document.createElement('canvas').getContext('2d')
  for (const field of document.querySelectorAll('input')) {
    if (!field.checkVisibility({ visibilityProperty: true }) || field.closest('.hidden')) continue
    const text = ['checkbox', 'radio', 'hidden', 'file'].includes(field.type) ? '' : field.placeholder
    if (!text.includes('⟧')) continue
    const style = getComputedStyle(field)
    pen.font = style.font
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
    if (pen.measureText(text).width > room + 1) found.add('cut off in ' + field.name + ': ' + said(text))
  }
  return [...found]
})()`

/** Returns a description of each text that is cut off, sticks out or lies on another one. */
export const clippedIn = (page: Page): Promise<string[]> => page.evaluate(script)
