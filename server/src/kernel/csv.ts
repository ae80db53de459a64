/**
 * Characters that spreadsheets skip before a formula (`skipped`), and characters that begin a formula (`begins`). A
 * leading tab or line break is escaped too. A lenient parser may treat line breaks, tabs and semicolons within a cell
 * as the start of a new cell. Text after them is therefore escaped like the start of a cell.
 */
const skipped = String.raw`[ \u0001-\u0008\u000b\u000c\u000e-\u001f\u007f-\u00a0\u1680\u2000-\u200f\u2028-\u202f\u00ad\u180e\u205f-\u2064\u3000\ufeff]*`
const begins = String.raw`=+@|%\u002d\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212`

/**
 * The places of a text that need an apostrophe: its start, and the characters after which a formula begins. PostgreSQL
 * and JavaScript read both expressions alike.
 */
export const formulaPlaces = {
  first: String.raw`^(?='*${skipped}[${begins}\t\r\n])`,
  later: String.raw`[\r\n\t;](?='*${skipped}[${begins}])`,
} as const

const first = new RegExp(formulaPlaces.first)
const later = new RegExp(formulaPlaces.later, 'g')

/**
 * Escapes user text against formula injection. Text that a spreadsheet could take for a formula gets a leading
 * apostrophe. The same applies to text after a separator within the cell. If apostrophes already precede the formula,
 * one more is added, so that removing one restores the text.
 */
export const escapeFormula = (text: string): string => text.replace(later, "$&'").replace(first, "'")

/** Writes a text as a quoted cell, escaped against formula injection. */
export const textCell = (text: string): string => `"${escapeFormula(text).replaceAll('"', '""')}"`

/** Writes lines of cells in the form of RFC 4180. */
export const csvOf = (lines: readonly (readonly string[])[]): string => lines.map((cells) => `${cells.join(',')}\r\n`).join('')
