import MarkdownIt, { type Token } from 'markdown-it'
import { Fragment, type ReactNode } from 'react'

/**
 * The subset that sellers may use: paragraphs, headings, lists, emphasis, links, code in a line and line breaks. The parser
 * leaves everything else as text, also HTML. Images are parsed so that only their description is shown.
 */
const parser = new MarkdownIt('zero').enable(['heading', 'list', 'emphasis', 'link', 'autolink', 'image', 'escape', 'newline', 'backticks', 'entity'])

/** The most levels of emphasis and links within each other. The parser itself limits only the levels of lists. */
const deepest = 20

/** Drops the marks of deeper levels and keeps their text, so that rendering cannot exceed the stack. */
parser.core.ruler.push('depth', ({ tokens }) => {
  for (const block of tokens) {
    let depth = 0
    block.children =
      block.children?.filter(({ nesting }) => {
        if (nesting === 1) depth++
        const kept = nesting === 0 || depth <= deepest
        if (nesting === -1) depth--
        return kept
      }) ?? null
  }
})

/** The longest text that is parsed. The API accepts no longer one. Text beyond it is left out, so that the time is bounded. */
const longest = 10_000

const blocksOf = (source: string): Token[] => parser.parse(source.slice(0, longest), {})

/** Returns the address of a link, if it is an absolute one with http, https or mailto. */
const addressOf = (link: Token): string | null => {
  const url = URL.parse(String(link.attrGet('href')))
  return url !== null && ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null
}

/** Runs of tokens: a token, or an opening token with the tokens up to its closing one. */
interface Part {
  readonly token: Token
  readonly inner: readonly Token[]
}
const partsOf = (tokens: readonly Token[]): Part[] => {
  const parts: Part[] = []
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    const from = at + 1
    if (token.nesting === 1) for (let depth = 1; depth > 0 && at + 1 < tokens.length;) depth += tokens[++at]!.nesting
    parts.push({ token, inner: token.nesting === 1 ? tokens.slice(from, at) : [] })
  }
  return parts
}

/** Renders tokens as elements of a fixed list. A token that is not on the list becomes text. */
const elementsOf = (tokens: readonly Token[], link: LinkProps): ReactNode =>
  partsOf(tokens).map(({ token, inner }, key) => <Fragment key={key}>{elementOf(token, inner, link)}</Fragment>)

const elementOf = (token: Token, inner: readonly Token[], link: LinkProps): ReactNode => {
  const children = (): ReactNode => elementsOf(inner, link)
  switch (token.type) {
    case 'inline':
      return elementsOf(token.children ?? [], link)
    case 'paragraph_open':
      return token.hidden ? children() : <p {...link.paragraph}>{children()}</p>
    // A heading of the seller has no place in the outline of our page.
    case 'heading_open':
      return (
        <p {...link.paragraph}>
          <strong>{children()}</strong>
        </p>
      )
    case 'bullet_list_open':
      return <ul>{children()}</ul>
    case 'ordered_list_open':
      return <ol start={Number(token.attrGet('start') ?? 1)}>{children()}</ol>
    case 'list_item_open':
      return <li>{children()}</li>
    case 'strong_open':
      return <strong>{children()}</strong>
    case 'em_open':
      return <em>{children()}</em>
    case 'code_inline':
      return <code>{token.content}</code>
    case 'link_open': {
      const href = addressOf(token)
      return href === null ? (
        children()
      ) : (
        <a href={href} target="_blank" rel="nofollow noopener" {...link.anchor}>
          {children()}
        </a>
      )
    }
    case 'softbreak':
      return '\n'
    case 'hardbreak':
      return <br />
    default:
      return token.content
  }
}

/** The attributes of paragraphs and links. Mails need their styles in each element. */
interface LinkProps {
  readonly paragraph?: object
  readonly anchor?: object
}

/** A text of the seller with paragraphs and lists. Links open beside the page, so that a form keeps its input. */
export const Markdown = ({ source, className = '', id }: { source: string; className?: string; id?: string }) => (
  <div id={id} className={`markdown ${className}`.trimEnd()}>
    {elementsOf(blocksOf(source), {})}
  </div>
)

/** The same text in a mail. */
export const MailMarkdown = ({ source, ...styles }: { source: string } & LinkProps) => <>{elementsOf(blocksOf(source), styles)}</>

/** A text of the seller in one line, such as the label of a field. Only emphasis, links and code are rendered. */
export const InlineMarkdown = ({ source }: { source: string }) => <>{elementsOf(parser.parseInline(source.slice(0, longest), {}), {})}</>

/** Returns the text without its marks. With `full`, items of lists keep their dash or number, and links are followed by their addresses. */
const plainOf = (tokens: readonly Token[], full: boolean): string =>
  partsOf(tokens)
    .map(({ token, inner }) => {
      const text = (): string => plainOf(inner, full)
      switch (token.type) {
        case 'inline':
          return plainOf(token.children ?? [], full)
        case 'paragraph_open':
          return token.hidden ? `${text()}\n` : `${text()}\n\n`
        case 'heading_open':
        case 'bullet_list_open':
        case 'ordered_list_open':
          return `${text().trimEnd()}\n\n`
        case 'list_item_open':
          return `${!full ? '' : token.info === '' ? '- ' : `${token.info}. `}${text().trimEnd().replaceAll('\n', '\n  ')}\n`
        case 'link_open': {
          const href = addressOf(token)
          const shown = text()
          return !full || href === null || [href, href.replace(/^mailto:/, ''), href.replace(/\/$/, '')].includes(shown) ? shown : `${shown} (${href})`
        }
        case 'softbreak':
        case 'hardbreak':
          return '\n'
        case 'strong_open':
        case 'em_open':
          return text()
        default:
          return token.content
      }
    })
    .join('')

/** Returns the text for a mail without HTML: lists with dashes, and links with their addresses. */
export const plainMarkdown = (source: string): string => plainOf(blocksOf(source), true).trim()

/** Returns the text in one line without marks and addresses, such as for a link preview. A longer text ends with an ellipsis after a word. */
export const lineOf = (source: string, most = Infinity): string => {
  const line = plainOf(blocksOf(source), false).replaceAll(/\s+/g, ' ').trim()
  if (line.length <= most) return line
  const cut = line.slice(0, most - 1)
  const end = cut.lastIndexOf(' ')
  return `${(end > most / 2 ? cut.slice(0, end) : cut).trimEnd()}…`
}
