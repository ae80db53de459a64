/**
 * Removes these characters from the end of a text. A regular expression such as `/x+$/` would take quadratic time for a
 * long run of the character in the middle of the text.
 */
export const trimEndOf = (text: string, characters: string): string => {
  let end = text.length
  while (end > 0 && characters.includes(text[end - 1]!)) end--
  return text.slice(0, end)
}
