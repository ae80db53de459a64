/**
 * Removes these characters from the end of a text. A regular expression such as `/x+$/` would take quadratic time for a
 * long run of the character in the middle of the text.
 */
export const trimEndOf = (text: string, characters: string): string => {
  let end = text.length
  while (end > 0 && characters.includes(text[end - 1]!)) end--
  return text.slice(0, end)
}

/** Maximum number of characters of a name in a mail to people who may not know its owner. */
const longestForeignName = 60

/**
 * Returns the name that a customer chose, for mails to other people. Null if the name is long or contains an address: mail
 * programs turn addresses into links, and the mail has the seller's look. So a name could lure its readers to another site.
 */
export const nameWithoutLinks = (name: string | null): string | null =>
  name === null || name.length > longestForeignName || /\/\/|@|[^\s.]\.\p{L}{2,}/u.test(name) ? null : name
