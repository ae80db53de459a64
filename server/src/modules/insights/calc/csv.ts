/** Writes a text as a cell. A text that a spreadsheet would compute begins with an apostrophe. */
export const textCell = (text: string): string => `"${(/^[=+\-@|%\t\r\n]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`

/** Writes lines of cells in the form of RFC 4180. */
export const csvOf = (lines: readonly (readonly string[])[]): string => lines.map((cells) => `${cells.join(',')}\r\n`).join('')
