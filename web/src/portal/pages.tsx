import type { Frame } from '@bursar/views'
import { textsIn } from '../kit/index.ts'
import { portalTexts } from './texts.ts'

/** The page number and links to other pages. Nothing for a single page. */
export const Pages = ({ frame, page, pages, href }: { frame: Frame; page: number; pages: number; href: (page: number) => string }) => {
  const words = textsIn(frame, portalTexts)
  if (pages <= 1) return null
  return (
    <p className="links">
      {page > 1 && <a href={href(page - 1)}>{words.earlier}</a>} <span className="soft">{words.page(page, pages)}</span>{' '}
      {page < pages && <a href={href(page + 1)}>{words.later}</a>}
    </p>
  )
}
