import type { CheckoutView, Frame } from '@bursar/views'
import { Document, lineOf, Markdown, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

type Props = { readonly view: Extract<CheckoutView, { kind: 'link-preview' }>; readonly frame: Frame }

/** The longest description in the preview of a link. Messengers cut longer ones in the middle of a word. */
const longest = 200

/** The page that a messenger reads for a link with a secret. A browser leaves it at once. It repeats nothing of the secret. */
export const LinkPreview = ({ view, frame }: Props) => {
  const words = textsIn(frame, { en, de })
  const { seller, product, to } = view
  const title = product ? words.buy(product.name, seller) : words.claim(seller)
  const description = product ? (product.description ?? words.buyText(seller)) : words.claimText
  return (
    <Document frame={frame} title={title} seller={seller} narrow preview={{ description: lineOf(description, longest), image: product?.image ?? null }}>
      <div className="card">
        <h1>{title}</h1>
        <Markdown source={description} />
        <a className="button" href={to}>
          {words.continue}
        </a>
      </div>
    </Document>
  )
}
