import type { MailFrame } from '@bursar/views'
import type { CSSProperties, ReactNode } from 'react'
import { MailMarkdown } from '../kit/markdown.tsx'
import { buttonColors } from './colors.ts'
import type { Block, Content, Row } from './content.ts'
import { footerOf } from './footer.ts'

/*
 * Mail programs support little: styles stand on the elements, and tables make the columns. The style element only adapts the
 * colours to a dark screen and the margins to a narrow one. Programs that ignore it show the light colours.
 */
const font = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
const mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
const ink = '#1b1f23'
const soft = '#545b62'
const hair = '#e4e2db'

const styleOf = (isDark: boolean): string => `
:root { color-scheme: light dark; supported-color-schemes: light dark; }
@media (max-width: 480px) { .outer { padding: 0 !important; } .card { border-radius: 0 !important; border-width: 0 !important; } .pad { padding-left: 24px !important; padding-right: 24px !important; } }
@media (prefers-color-scheme: dark) {
  .page { background-color: #14171a !important; } .card { background-color: #1c2024 !important; border-color: #343a40 !important; }
  .ink, .ink a { color: #e9ecef !important; } .soft, .soft a { color: #aeb6bd !important; } .hair { border-color: #343a40 !important; }
  .value { background-color: #262b30 !important; border-color: #343a40 !important; color: #e9ecef !important; }
  .test { background-color: #3a2a0c !important; color: #ffd58a !important; }
  ${isDark ? '.button { background-color: #e9ecef !important; } .button a { color: #14171a !important; border-color: #e9ecef !important; }' : ''}
}`

const Table = ({ children, style, className }: { children: ReactNode; style?: CSSProperties; className?: string }) => (
  <table role="presentation" width="100%" cellPadding={0} cellSpacing={0} border={0} style={{ borderCollapse: 'collapse', ...style }} className={className}>
    <tbody>{children}</tbody>
  </table>
)

/** The whole mail as HTML: the seller, the content with its button, and the footer. */
export const MailDocument = ({ content, frame }: { content: Content; frame: MailFrame }) => {
  const { seller, logo_url } = frame
  const button = buttonColors(seller?.accent ?? null)
  const footer = footerOf(frame)
  const { title, before, after = [], links = [] } = content
  const preview = [...before, ...after].find((block) => block.type === 'text')
  return (
    <html lang={frame.locale} dir="ltr">
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="supported-color-schemes" content="light dark" />
        <meta name="format-detection" content="telephone=no, date=no, address=no, email=no" />
        <title>{content.subject}</title>
        <style dangerouslySetInnerHTML={{ __html: styleOf(button.is_dark) }} />
      </head>
      <body className="page" style={{ margin: 0, padding: 0, backgroundColor: '#f6f5f1', WebkitTextSizeAdjust: '100%' }}>
        {preview && <div style={{ display: 'none', overflow: 'hidden', maxHeight: 0, maxWidth: 0, opacity: 0, lineHeight: '1px' }}>{preview.text}</div>}
        <Table className="page" style={{ backgroundColor: '#f6f5f1' }}>
          <tr>
            <td align="center" className="outer" style={{ padding: '32px 16px' }}>
              <table
                role="presentation"
                width="100%"
                cellPadding={0}
                cellSpacing={0}
                border={0}
                className="card"
                style={{ maxWidth: 560, backgroundColor: '#ffffff', border: `1px solid ${hair}`, borderRadius: 12, borderCollapse: 'separate' }}
              >
                <tbody>
                  {footer.sandbox !== null && (
                    <tr>
                      <td
                        className="test pad"
                        style={{ padding: '8px 40px', backgroundColor: '#fdf0d5', color: '#6b3d00', borderRadius: '11px 11px 0 0', font: `13px/20px ${font}` }}
                      >
                        {footer.sandbox}
                      </td>
                    </tr>
                  )}
                  <tr>
                    <td className="pad" style={{ padding: '32px 40px 0' }}>
                      <Sender name={seller?.name ?? 'Bursar'} logo={logo_url} />
                    </td>
                  </tr>
                  <tr>
                    <td className="pad" style={{ padding: after.length > 0 ? '24px 40px 16px' : '24px 40px 36px' }}>
                      <h1
                        className="ink"
                        style={{ margin: '0 0 12px', color: ink, font: `600 22px/30px ${font}`, letterSpacing: '-0.01em', overflowWrap: 'anywhere' }}
                      >
                        {title}
                      </h1>
                      <Blocks blocks={before} />
                      <Button {...content.button} {...button} />
                      {links.length > 0 && (
                        <p className="soft" style={{ margin: '16px 0 0', color: soft, font: `14px/24px ${font}` }}>
                          {links.map(({ label, href }, at) => (
                            <span key={href}>
                              {at > 0 && ' · '}
                              <a href={href} style={{ color: soft, textDecoration: 'underline', whiteSpace: 'nowrap' }}>
                                {label}
                              </a>
                            </span>
                          ))}
                        </p>
                      )}
                      {after.length > 0 && (
                        <div style={{ paddingTop: 28 }}>
                          <Blocks blocks={after} />
                        </div>
                      )}
                    </td>
                  </tr>
                </tbody>
              </table>
              <table role="presentation" width="100%" cellPadding={0} cellSpacing={0} border={0} style={{ maxWidth: 560 }}>
                <tbody>
                  <tr>
                    <td className="soft pad" style={{ padding: '20px 40px 8px', color: soft, font: `13px/20px ${font}`, overflowWrap: 'anywhere' }}>
                      {footer.lines.map((line, at) => (
                        <p key={at} style={{ margin: '0 0 4px' }}>
                          {line.map((part, index) =>
                            typeof part === 'string' ? (
                              part
                            ) : (
                              <a key={index} href={part.href} style={{ color: soft, textDecoration: 'underline' }}>
                                {part.label}
                              </a>
                            ),
                          )}
                        </p>
                      ))}
                    </td>
                  </tr>
                </tbody>
              </table>
            </td>
          </tr>
        </Table>
      </body>
    </html>
  )
}

/** The priority of the image keeps React from adding a preload link, which mail programs do not know. */
const Sender = ({ name, logo }: { name: string; logo: string | null }) => (
  <table role="presentation" cellPadding={0} cellSpacing={0} border={0}>
    <tbody>
      <tr>
        {logo !== null && (
          <td style={{ paddingRight: 12 }}>
            <img src={logo} alt="" fetchPriority="low" width={36} height={36} style={{ display: 'block', borderRadius: 8, border: 0, objectFit: 'cover' }} />
          </td>
        )}
        <td className="ink" style={{ color: ink, font: `600 16px/24px ${font}`, overflowWrap: 'anywhere' }}>
          {name}
        </td>
      </tr>
    </tbody>
  </table>
)

const Button = ({ label, href, background, color }: { label: string; href: string; background: string; color: string }) => (
  <table role="presentation" cellPadding={0} cellSpacing={0} border={0} style={{ marginTop: 8 }}>
    <tbody>
      <tr>
        <td className="button" style={{ backgroundColor: background, borderRadius: 8 }}>
          <a
            href={href}
            style={{
              display: 'inline-block',
              padding: '11px 22px',
              border: `1px solid ${background}`,
              borderRadius: 8,
              color,
              font: `600 16px/24px ${font}`,
              textDecoration: 'none',
            }}
          >
            {label}
          </a>
        </td>
      </tr>
    </tbody>
  </table>
)

const Blocks = ({ blocks }: { blocks: readonly Block[] }) => (
  <>
    {blocks.map((block, at) => (
      <Part key={at} block={block} />
    ))}
  </>
)

const Part = ({ block }: { block: Block }) => {
  switch (block.type) {
    case 'text':
      return (
        <p className="ink" style={{ margin: '0 0 16px', color: ink, font: `16px/25px ${font}`, overflowWrap: 'anywhere' }}>
          {block.text}
        </p>
      )
    case 'note':
      return (
        <p className="soft" style={{ margin: '0 0 12px', color: soft, font: `14px/22px ${font}`, overflowWrap: 'anywhere' }}>
          {block.text}
        </p>
      )
    case 'amount':
      return (
        <div style={{ margin: '0 0 20px' }}>
          <p className="ink" style={{ margin: 0, color: ink, font: `600 36px/44px ${font}`, letterSpacing: '-0.02em' }}>
            {block.value}
          </p>
          <p className="soft" style={{ margin: '2px 0 0', color: soft, font: `15px/22px ${font}` }}>
            {block.note}
          </p>
        </div>
      )
    case 'picture':
      return (
        <table role="presentation" cellPadding={0} cellSpacing={0} border={0} style={{ margin: '0 0 20px' }}>
          <tbody>
            <tr>
              <td style={{ paddingRight: 16 }}>
                <img
                  src={block.url}
                  alt={block.name}
                  fetchPriority="low"
                  width={72}
                  height={72}
                  style={{ display: 'block', borderRadius: 8, border: 0, objectFit: 'cover' }}
                />
              </td>
              <td className="ink" style={{ color: ink, font: `16px/24px ${font}`, overflowWrap: 'anywhere' }}>
                {block.name}
              </td>
            </tr>
          </tbody>
        </table>
      )
    case 'code':
      return (
        <p
          className="value"
          style={{
            margin: '4px 0 20px',
            padding: '16px 20px',
            backgroundColor: '#f6f5f1',
            border: `1px solid ${hair}`,
            borderRadius: 8,
            color: ink,
            font: `600 28px/36px ${mono}`,
            letterSpacing: '0.08em',
            textAlign: 'center',
          }}
        >
          {block.code}
        </p>
      )
    case 'rows':
      return (
        <>
          {block.title !== undefined && <Heading>{block.title}</Heading>}
          <Table style={{ marginBottom: 24 }}>
            {block.rows.map((row, at) => (
              <Line key={at} row={row} first={at === 0} />
            ))}
          </Table>
        </>
      )
    case 'items':
      return (
        <>
          <Heading>{block.title}</Heading>
          {block.items.map(({ name, values, markdown, links = [] }, at) => (
            <div key={at} style={{ margin: at === block.items.length - 1 ? '0 0 28px' : '0 0 14px' }}>
              <p className="ink" style={{ margin: 0, color: ink, font: `15px/24px ${font}`, overflowWrap: 'anywhere' }}>
                {name}
              </p>
              {markdown && <Prose source={markdown} />}
              {values.map((value) => (
                <p
                  key={value}
                  className="value"
                  style={{
                    margin: '4px 0 0',
                    padding: '8px 12px',
                    backgroundColor: '#f6f5f1',
                    border: `1px solid ${hair}`,
                    borderRadius: 6,
                    color: ink,
                    font: `14px/20px ${mono}`,
                    overflowWrap: 'anywhere',
                  }}
                >
                  {value}
                </p>
              ))}
              {links.map(({ label, href }) => (
                <p key={href} className="soft" style={{ margin: '2px 0 0', color: soft, font: `15px/24px ${font}`, overflowWrap: 'anywhere' }}>
                  <a href={href} style={{ color: soft, textDecoration: 'underline' }}>
                    {label}
                  </a>
                </p>
              ))}
            </div>
          ))}
        </>
      )
  }
}

/** A text of the seller under the name of a benefit. */
const Prose = ({ source }: { source: string }) => (
  <div className="soft" style={{ color: soft, font: `15px/24px ${font}`, overflowWrap: 'anywhere' }}>
    <MailMarkdown source={source} paragraph={{ style: { margin: '2px 0 6px' } }} anchor={{ style: { color: soft, textDecoration: 'underline' } }} />
  </div>
)

const Heading = ({ children }: { children: ReactNode }) => (
  <h2 className="soft" style={{ margin: '0 0 6px', color: soft, font: `600 14px/20px ${font}` }}>
    {children}
  </h2>
)

/** Values up to this length stay on one line. */
const longestLine = 20

const Line = ({ row: { label, value, tone }, first }: { row: Row; first: boolean }) => {
  const weight = tone === 'total' ? '600 ' : ''
  const edge = { borderTop: `1px solid ${first ? 'transparent' : hair}`, padding: '9px 0', verticalAlign: 'top' as const }
  return (
    <tr>
      <td
        className={tone === 'total' ? 'ink hair' : 'soft hair'}
        style={{ ...edge, color: tone === 'total' ? ink : soft, font: `${weight}15px/22px ${font}`, overflowWrap: 'break-word' }}
      >
        {label}
      </td>
      <td
        align="right"
        className="ink hair"
        style={{
          ...edge,
          paddingLeft: 16,
          color: ink,
          font: `${weight}15px/22px ${font}`,
          fontVariantNumeric: 'tabular-nums',
          // An amount or a date does not break beside a long label. An address may.
          ...(value.length <= longestLine ? { whiteSpace: 'nowrap' } : { overflowWrap: 'anywhere' }),
        }}
      >
        {value}
      </td>
    </tr>
  )
}
