import type { MailFrame } from '@bursar/views'
import type { Block, Content } from './content.ts'
import { plainMarkdown } from '../kit/markdown.tsx'
import { footerOf } from './footer.ts'

/** The mail as plain text: the same parts in the same order. Links stand on lines of their own. */
export const plainOf = ({ title, before, button, links = [], after = [] }: Content, frame: MailFrame): string => {
  const { sandbox, lines } = footerOf(frame)
  return [
    ...(sandbox === null ? [] : [`[${sandbox}]`]),
    title,
    ...before.map(plain),
    ...[button, ...links].map(({ label, href }) => `${label}:\n${href}`),
    ...after.map(plain),
    ['-- ', ...lines.map((line) => line.map((part) => (typeof part === 'string' ? part : linked(part))).join(''))].join('\n'),
  ].join('\n\n')
}

const linked = ({ label, href }: { label: string; href: string }): string => (href === `mailto:${label}` ? label : `${label}: ${href}`)

const plain = (block: Block): string => {
  switch (block.type) {
    case 'text':
    case 'note':
      return block.text
    case 'amount':
      return `${block.value}\n${block.note}`
    case 'code':
      return block.code
    case 'rows':
      return [...(block.title === undefined ? [] : [block.title]), ...block.rows.map(({ label, value }) => `${label}: ${value}`)].join('\n')
    case 'items':
      return [
        block.title,
        ...block.items.flatMap(({ name, values, markdown, links = [] }) => [
          `- ${name}`,
          ...[...(markdown ? plainMarkdown(markdown).split('\n') : []), ...values, ...links.map(linked)].map((value) => `  ${value}`.trimEnd()),
        ]),
      ].join('\n')
    case 'picture':
      return block.name
  }
}
