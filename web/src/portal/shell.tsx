import type { Frame, PortalShell } from '@bursar/views'
import type { ReactNode } from 'react'
import { Complaints, Document, Form, Notice, speak, textsIn } from '../kit/index.ts'
import { portalTexts } from './texts.ts'

const sections = {
  overview: '/overview',
  team: '/team',
  subscriptions: '/subscriptions',
  usage: '/usage',
  orders: '/orders',
  billing: '/billing',
  access: '/access',
  account: '/account',
} as const
export type Section = keyof typeof sections

/** Lists the portal sections that a reader sees. Managers also see the sections for their own benefits and account. */
const visible = ({ reader, has_team, has_usage }: PortalShell): readonly Section[] =>
  reader.manages
    ? [
        'overview',
        ...(has_team ? (['team'] as const) : []),
        'subscriptions',
        ...(has_usage ? (['usage'] as const) : []),
        'orders',
        'billing',
        'access',
        'account',
      ]
    : ['access', 'account']

interface PortalProps {
  readonly frame: Frame
  readonly shell: PortalShell
  /** The section to mark as current. Null if the page belongs to no section. */
  readonly section: Section | null
  readonly title: string
  readonly children: ReactNode
  readonly script?: boolean
  /** Additional scripts. */
  readonly scripts?: readonly string[]
  readonly refresh?: number | null
}

/** The frame of a portal page: seller, sections, reader and the confirmation of the last action. */
export const Portal = ({ frame, shell, section, title, children, script = true, scripts = [], refresh = null }: PortalProps) => {
  const { t } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const done: Record<string, string> = shared.done
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
          <Form frame={frame} action={`${base}/sign-out`} className="who">
            <span className="soft">{shell.reader.email}</span>
            <button className="quiet">{t.signOut}</button>
          </Form>
          {!single && (
            <nav aria-label={shared.navigation}>
              {visible(shell).map((name) => (
                <a key={name} href={`${base}${sections[name]}`} aria-current={name === section ? 'page' : undefined}>
                  {shared.sections[name]}
                </a>
              ))}
            </nav>
          )}
        </>
      }
    >
      {shell.done !== null && Object.hasOwn(done, shell.done) && <Notice>{done[shell.done]}</Notice>}
      <Complaints frame={frame} complaints={shell.complaints} />
      {children}
      {shell.return_url !== null && (
        <p>
          <a href={shell.return_url}>{shared.back(shell.seller.name)}</a>
        </p>
      )}
    </Document>
  )
}
