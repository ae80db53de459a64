import { listCustomerMeters } from '@bursar/contract'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { t } from '../../app/texts.ts'
import { number } from '../../kit/format.ts'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'

/** The usage of a customer on each meter. */
const Usage = ({ id }: { id: string }) => {
  const query = { customer_id: [id], limit: 100 }
  const read = useRead(listCustomerMeters, { query })
  useAsCode(listCustomerMeters, { query })
  return (
    <Panel title={t.customers.tabs.usage} flush>
      <Loaded read={read}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft pad">{t.customers.noUsage}</p>
          ) : (
            <div className="scroll" tabIndex={0} role="group" aria-label={t.customers.tabs.usage}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">{t.customers.meter}</th>
                    <th scope="col" className="amount">
                      {t.customers.consumed}
                    </th>
                    <th scope="col" className="amount">
                      {t.customers.credited}
                    </th>
                    <th scope="col" className="amount">
                      {t.customers.balance}
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map(({ id: key, meter, consumed_units, credited_units, balance }) => (
                    <tr key={key}>
                      <th scope="row">{meter.name}</th>
                      <td className="amount">{number(consumed_units)}</td>
                      <td className="amount">{number(credited_units)}</td>
                      <td className="amount">{number(balance)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Panel>
  )
}
export default Usage
