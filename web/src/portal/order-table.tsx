import type { Frame, PortalOrder } from '@bursar/views'
import { speak, Status, textsIn } from '../kit/index.ts'
import { Day } from './dated.tsx'
import { portalTexts } from './texts.ts'

const kinds = { draft: 'off', pending: 'wait', paid: 'good', refunded: 'off', partially_refunded: 'off', void: 'off' } as const

export const OrderStatus = ({ frame, order: { status } }: { frame: Frame; order: PortalOrder }) => (
  <Status kind={kinds[status]}>{textsIn(frame, portalTexts).orderStatus[status]}</Status>
)

export const OrderTable = ({ frame, base, orders }: { frame: Frame; base: string; orders: readonly PortalOrder[] }) => {
  const { money } = speak(frame)
  const { orderColumns: columns, pdfOf } = textsIn(frame, portalTexts)
  return (
    <table className="orders">
      <thead>
        <tr>
          <th scope="col">{columns.what}</th>
          <th scope="col">{columns.date}</th>
          <th scope="col">{columns.status}</th>
          <th scope="col" className="amount">
            {columns.total}
          </th>
          <th scope="col">{columns.invoice}</th>
        </tr>
      </thead>
      <tbody>
        {orders.map((order) => (
          <tr key={order.id}>
            <th scope="row">
              <a href={`${base}/orders/${order.id}`}>{order.description}</a>
            </th>
            <td data-label={columns.date}>
              <Day frame={frame} at={order.created_at} />
            </td>
            <td data-label={columns.status}>
              <OrderStatus frame={frame} order={order} />
            </td>
            <td data-label={columns.total} className="amount">
              {money(order.total_amount, order.currency)}
            </td>
            <td data-label={order.paid ? columns.invoice : undefined} className="document">
              {order.paid && (
                <a href={`${base}/orders/${order.id}/invoice`}>
                  PDF <span className="hidden">{pdfOf(order.invoice_number ?? order.description)}</span>
                </a>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
