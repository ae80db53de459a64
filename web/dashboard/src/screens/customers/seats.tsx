import { listOrders, listSeats, listSubscriptions } from '@bursar/contract'
import { useRead } from '../../app/api.ts'
import { may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Status, Time, type Tone } from '../../kit/bits.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'

type Pool = { readonly subscription_id: string } | { readonly order_id: string }
const tones: Readonly<Record<string, Tone>> = { claimed: 'good', pending: 'wait', revoked: 'off' }
/** Purchases with seats of one customer. More are rare, and each costs a request. */
const most = 5

/** The seats of each purchase of a customer: how many are assigned, and to whom. */
export const Seats = ({ id }: { id: string }) => {
  const query = { customer_id: [id], limit: 50 }
  const subscriptions = useRead(listSubscriptions, { query }, { enabled: may('sales:read') })
  const orders = useRead(listOrders, { query: { ...query, product_billing_type: ['one_time' as const] } }, { enabled: may('sales:read') })
  const pools = [
    ...(subscriptions.data?.items ?? [])
      .filter(({ seats, ended_at }) => seats !== null && ended_at === null)
      .map((one) => ({ key: one.id, name: one.product.name, pool: { subscription_id: one.id } })),
    ...(orders.data?.items ?? [])
      .filter(({ seats, subscription_id }) => seats !== null && subscription_id === null)
      .map((one) => ({ key: one.id, name: one.product?.name ?? one.description, pool: { order_id: one.id } })),
  ]
  return pools.slice(0, most).map(({ key, name, pool }) => <SeatsOf key={key} name={name} pool={pool} />)
}

const SeatsOf = ({ name, pool }: { name: string; pool: Pool }) => {
  const read = useRead(listSeats, { query: { ...pool, limit: 100 } })
  return (
    <Panel title={t.customers.seatsOf(name)}>
      <Loaded read={read} lines={2}>
        {({ items, available_seats, total_seats }) => (
          <>
            <p className="soft">{t.customers.seatsLeft(total_seats - available_seats, total_seats)}</p>
            <ul className="rows">
              {items
                .filter(({ status }) => status !== 'revoked')
                .map(({ id, member, email, status, claimed_at, invitation_token_expires_at }) => (
                  <li key={id}>
                    <span>
                      {member?.name ?? email} {member?.name && <span className="soft">{email}</span>}
                    </span>
                    <Status tone={tones[status] ?? 'off'}>{t.customers.seatStatuses[status]}</Status>
                    {claimed_at ? <Time at={claimed_at} /> : invitation_token_expires_at && <Time at={invitation_token_expires_at} />}
                  </li>
                ))}
            </ul>
          </>
        )}
      </Loaded>
    </Panel>
  )
}
