import { createCustomerSession, listCustomerMembers, type getCustomer } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { ExternalLink } from 'lucide-react'
import { useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Time } from '../../kit/bits.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Failed, Loaded } from '../../kit/states.tsx'
import { Seats } from './seats.tsx'

const Enter = ({ name, onEnter }: { name: string; onEnter: () => void }) =>
  may('customers:manage') && (
    <button type="button" aria-label={t.customers.openPortalOf(name)} onClick={onEnter}>
      <ExternalLink size={14} aria-hidden /> {t.customers.openPortal}
    </button>
  )

/** The people of a customer: the payer on top, then the members. */
const People = ({ customer }: { customer: Received<typeof getCustomer> }) => {
  const read = useRead(listCustomerMembers, { params: { id: customer.id }, query: { limit: 100, sorting: ['created_at'] } })
  useAsCode(listCustomerMembers, { params: { id: customer.id } })
  const open = useChange(createCustomerSession, [])
  // The tab opens in the click itself. A browser blocks a tab that opens after the answer.
  const enter = (member_id?: string) => {
    const tab = window.open('', '_blank')
    open.mutate(
      { body: { customer_id: customer.id, ...(member_id === undefined ? {} : { member_id }) } },
      {
        onSuccess: ({ customer_portal_url }) => {
          if (!tab) return
          tab.opener = null
          tab.location.href = customer_portal_url
        },
        onError: () => tab?.close(),
      },
    )
  }
  return (
    <>
      <Panel title={t.customers.people}>
        <p className="soft">{t.customers.peopleAbout}</p>
        {may('customers:manage') && <p className="soft">{t.customers.portalAbout}</p>}
        {open.error && <Failed error={open.error} />}
        <ul className="rows">
          <li>
            <span>
              <strong>{customer.name ?? customer.email ?? t.customers.unnamed}</strong>{' '}
              <span className="soft">{customer.name === null ? null : customer.email}</span>
            </span>
            <span className="tag">{t.customers.payer}</span>
            {/* A customer from before the member migration has no members and uses the portal itself. */}
            {read.data?.items.length === 0 && <Enter name={customer.name ?? customer.email ?? t.customers.unnamed} onEnter={() => enter()} />}
          </li>
          <Loaded read={read}>
            {({ items }) =>
              items.length === 0 ? (
                <li className="soft">{t.customers.noMembers}</li>
              ) : (
                items.map(({ id, name, email, role, created_at }) => (
                  <li key={id}>
                    <span>
                      {name ?? email} {name !== null && <span className="soft">{email}</span>}
                    </span>
                    <span className="tag">{t.customers.roles[role]}</span>
                    <Time at={created_at} />
                    <Enter name={name ?? email} onEnter={() => enter(id)} />
                  </li>
                ))
              )
            }
          </Loaded>
        </ul>
      </Panel>
      <Seats id={customer.id} />
    </>
  )
}
export default People
