import { explainAccess, getCustomer, listBenefits, listCustomerMembers } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { Link, useParams } from '@tanstack/react-router'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { may } from '../../app/island.ts'
import { one, useSearch, useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Status, Time } from '../../kit/bits.tsx'
import { Field } from '../../kit/form.tsx'
import { Head, Panel } from '../../kit/layout.tsx'
import { Empty, Failed, Loaded, Skeleton } from '../../kit/states.tsx'

type Explanation = Received<typeof explainAccess>
type Chain = Explanation['chains'][number]

/** Explains for one person and one benefit why there is access or not, and what would end it. */
export const WhyAccess = () => {
  const { id } = useParams({ strict: false }) as { id: string }
  const search = useSearch()
  const setSearch = useSetSearch()
  const [member_id, benefit_id] = [one(search.member), one(search.benefit)]
  const customer = useRead(getCustomer, { params: { id } })
  const members = useRead(listCustomerMembers, { params: { id }, query: { limit: 100, sorting: ['created_at'] } })
  const benefits = useRead(listBenefits, { query: { limit: 100, sorting: ['description'] } }, { enabled: may('products:read') })
  const query = { ...(member_id === undefined ? { customer_id: id } : { member_id }), benefit_id: benefit_id ?? '' }
  const read = useRead(explainAccess, { query }, { enabled: benefit_id !== undefined })
  useAsCode(explainAccess, { query })
  const a = t.customers.access
  const name = customer.data?.name ?? customer.data?.email ?? t.customers.unnamed
  const people = members.data?.items ?? []
  const member = people.find((found) => found.id === member_id)
  return (
    <>
      <Head title={a.title} crumb={{ to: `/customers/${id}`, name }} />
      <p className="soft">{a.about}</p>
      {customer.error ? (
        <Failed error={customer.error} again={customer.again} />
      ) : members.data === undefined || benefits.data === undefined ? (
        <Skeleton lines={3} />
      ) : benefits.data.items.length === 0 ? (
        <Empty text={a.noBenefits} />
      ) : (
        <div className="pair">
          <Field
            key={`person ${member_id}`}
            name="person"
            label={a.person}
            required
            value={member_id ?? ''}
            choices={[['', a.itself(name)], ...people.map((found) => [found.id, found.name ?? found.email] as const)]}
            onChange={(value) => setSearch({ member: value === '' ? undefined : value })}
          />
          <Field
            key={`benefit ${benefit_id}`}
            name="benefit"
            label={a.benefit}
            required
            value={benefit_id ?? ''}
            choices={[
              ...(benefit_id === undefined ? [['', a.choose] as const] : []),
              ...benefits.data.items.map((found) => [found.id, found.description] as const),
            ]}
            onChange={(value) => setSearch({ benefit: value === '' ? undefined : value })}
          />
        </div>
      )}
      {benefit_id !== undefined && (
        <Loaded read={read}>
          {(found) => (
            <div aria-busy={read.isPlaceholder}>
              <div className={`verdict ${found.has_access ? 'good' : 'bad'}`} role="status">
                <strong>{(found.has_access ? a.yes : a.no)(member ? (member.name ?? member.email) : name, found.benefit_description)}</strong>
                <p>{a.reasons[found.reason]}</p>
              </div>
              {found.chains.map((chain, at) => (
                <Way key={chain.links.map((link) => link.id).join(' ')} chain={chain} at={at + 1} />
              ))}
              {!found.complete && <p className="soft">{a.incomplete}</p>}
            </div>
          )}
        </Loaded>
      )}
    </>
  )
}

type Step = Chain['links'][number]

/** Says in the reader's language why a step gives no access. The message of a failed grant comes from its benefit. */
const noteOf = ({ kind, state, holds, until, note }: Step): string | null => {
  const n = t.customers.access.notes
  if (holds) return null
  if (kind === 'order') return until === null ? n.order(t.orders.statuses[state as 'draft']) : n.refunded
  if (kind === 'subscription') return state === 'past_due' ? n.grace : n.subscription(t.customers.access.states[state] ?? state)
  if (kind === 'seat') return state === 'pending' ? n.unclaimed : n.seatRevoked
  return state === 'failed' ? note : n.grants[state as keyof typeof n.grants]
}

const Way = ({ chain, at }: { chain: Chain; at: number }) => {
  const a = t.customers.access
  return (
    <Panel
      title={chain.by_hand ? a.byHand : a.chain(at)}
      actions={<Status tone={chain.has_access ? 'good' : 'off'}>{chain.has_access ? a.holds : a.denies}</Status>}
    >
      <ol className="chain">
        {chain.links.map((link) => {
          const { kind, id, state, holds, since, until } = link
          return (
            <li key={id} className={holds ? 'good' : 'bad'}>
              <div>
                {kind === 'order' && may('sales:read') ? <Link to={`/orders/${id}` as '/'}>{a.kinds[kind]}</Link> : <span>{a.kinds[kind]}</span>}{' '}
                <Status tone={holds ? 'good' : 'bad'}>{a.states[state] ?? state}</Status>
              </div>
              <p className="soft">
                {since && (
                  <>
                    {a.since} <Time at={since} />{' '}
                  </>
                )}
                {until && (
                  <>
                    {a.until} <Time at={until} />
                  </>
                )}
                {noteOf(link)}
              </p>
            </li>
          )
        })}
      </ol>
      {chain.ends.length > 0 && (
        <>
          <h3>{a.ends}</h3>
          <ul className="plain">
            {chain.ends.map(({ cause, resource_id, at: when }) => (
              <li key={`${cause} ${resource_id}`}>
                {a.causes[cause]} {when && <Time at={when} />}
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  )
}
