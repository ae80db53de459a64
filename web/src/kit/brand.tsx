import type { Brand, Frame } from '@bursar/views'
import { accentStyle } from '@bursar/views'
import { speak } from './speak.ts'

/** The height of a logo in the header, and the widest logo, in CSS pixels. */
const [height, widest] = [28, 168]

/** True for a wordmark. It contains the seller's name, so the header does not repeat the name. */
const isWordmark = ({ width, height: high }: NonNullable<Brand['logo']>): boolean => width / high >= 2

/** The seller's logo and name. */
export const Mark = ({ name, brand }: { name: string; brand: Brand | null }) => {
  const logo = brand?.logo ?? null
  if (logo === null) return <span className="mark">{name}</span>
  const word = isWordmark(logo)
  const width = Math.max(1, Math.min(widest, Math.round((logo.width / logo.height) * height)))
  return (
    <span className="mark">
      <img className={word ? 'word' : undefined} src={logo.path} alt={word ? name : ''} width={width} height={height} />
      {!word && name}
    </span>
  )
}

/** The style rules of the seller's colour. The content security policy allows them by their hash, so they must stay unchanged. */
export const AccentStyle = ({ brand }: { brand: Brand | null }) => {
  const rules = accentStyle(brand?.accent ?? null)
  return rules === '' ? null : <style dangerouslySetInnerHTML={{ __html: rules }} />
}

/** A link preview of a page. It contains nothing that only the holder of the link may know, and no address of the page. */
export interface Preview {
  readonly description: string
  /** The URL of a picture. Without one, the preview shows the seller's logo. */
  readonly image?: string | null
}

/** The types of pictures that link previews show. */
const previewed: readonly string[] = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']

export const OpenGraph = ({ frame, title, preview }: { frame: Frame; title: string; preview: Preview }) => {
  const { brand, origin } = frame
  const logo = brand?.logo && previewed.includes(brand.logo.content_type) ? new URL(brand.logo.path, origin).href : null
  const image = preview.image ?? logo
  return (
    <>
      <meta name="description" content={preview.description} />
      <meta property="og:type" content="website" />
      {brand && <meta property="og:site_name" content={brand.name} />}
      <meta property="og:title" content={title} />
      <meta property="og:description" content={preview.description} />
      {image !== null && <meta property="og:image" content={image} />}
      <meta name="twitter:card" content={preview.image ? 'summary_large_image' : 'summary'} />
    </>
  )
}

/** The first picture of a product, above the text of a card. The text describes the product, so the picture needs no text of its own. */
export const Cover = ({ src }: { src: string | null }) => src !== null && <img className="cover" src={src} alt="" width={640} height={256} />

/** The first picture of a product, beside its name. */
export const Thumb = ({ medias }: { medias: readonly { readonly public_url: string }[] }) =>
  medias[0] && <img className="thumb" src={medias[0].public_url} alt="" width={72} height={45} />

/** Returns the text of a link to a website: its host without `www`. */
const hostOf = (url: string): string => {
  try {
    return new URL(url).host.replace(/^www\./, '')
  } catch {
    return url
  }
}

/** The seller's links: support, terms, privacy policy and website. Empty if the seller gave none. */
export const SellerLinks = ({ frame }: { frame: Frame }) => {
  const { t } = speak(frame)
  const { brand } = frame
  if (!brand) return null
  const links = [
    brand.support_email === null ? null : { to: `mailto:${brand.support_email}`, text: brand.support_email },
    brand.terms_url === null ? null : { to: brand.terms_url, text: t.terms },
    brand.privacy_url === null ? null : { to: brand.privacy_url, text: t.privacy },
    brand.website === null ? null : { to: brand.website, text: hostOf(brand.website) },
  ].filter((link) => link !== null)
  if (links.length === 0) return null
  return (
    <nav className="seller" aria-label={t.sellerLinks(brand.name)}>
      {links.map(({ to, text }) => (
        <a key={to} href={to}>
          {text}
        </a>
      ))}
    </nav>
  )
}
