import type { Frame, PortalShell } from '@bursar/contract'
import type { ReactNode } from 'react'
import { Complaints, Document, Form, Notice, speak } from '../kit.tsx'

const sections = {
  overview: '/overview',
  team: '/team',
  subscriptions: '/subscriptions',
  orders: '/orders',
  billing: '/billing',
  access: '/access',
  account: '/account',
} as const
export type Section = keyof typeof sections

/** What each reader has in the portal: whoever manages also has what they use themselves. */
const visible = ({ reader }: PortalShell): readonly Section[] =>
  reader.manages ? ['overview', 'team', 'subscriptions', 'orders', 'billing', 'access', 'account'] : ['access', 'account']

interface PortalProps {
  readonly frame: Frame
  readonly shell: PortalShell
  /** Null: none of them. */
  readonly section: Section | null
  readonly title: string
  readonly children: ReactNode
  readonly script?: boolean
  /** Other scripts, besides. */
  readonly scripts?: readonly string[]
  readonly refresh?: number | null
}

/** The portal around one of its pages: the seller's name, the sections, who looks, and what has just happened. */
export const Portal = ({ frame, shell, section, title, children, script = true, scripts = [], refresh = null }: PortalProps) => {
  const { t } = speak(frame)
  const base = `/${shell.seller.slug}/portal`
  const single = shell.flow !== null
  return (
    <Document
      frame={frame}
      title={title}
      seller={shell.seller.name}
      script={script}
      scripts={scripts}
      refresh={refresh}
      beside={
        <>
          {!single && (
            <nav aria-label={t.portal.navigation}>
              {visible(shell).map((name) => (
                <a key={name} href={`${base}${sections[name]}`} aria-current={name === section ? 'page' : undefined}>
                  {t.portal.sections[name]}
                </a>
              ))}
            </nav>
          )}
          <Form frame={frame} action={`${base}/sign-out`} className="who">
            <span className="soft">{shell.reader.email}</span>
            <button className="quiet">{t.signOut}</button>
          </Form>
        </>
      }
    >
      {shell.done !== null && Object.hasOwn(t.portal.done, shell.done) && <Notice>{t.portal.done[shell.done]}</Notice>}
      <Complaints frame={frame} complaints={shell.complaints} />
      {children}
      {shell.return_url !== null && (
        <p>
          <a href={shell.return_url}>{t.portal.back(shell.seller.name)}</a>
        </p>
      )}
    </Document>
  )
}
