import { listBenefitGrants } from '@bursar/contract'
import { Link } from '@tanstack/react-router'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Status, Time } from '../../kit/bits.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'

/** The grants of a customer and its members, with the reason if a grant failed. */
const Grants = ({ id }: { id: string }) => {
  const query = { customer_id: [id], limit: 100 }
  const read = useRead(listBenefitGrants, { query })
  useAsCode(listBenefitGrants, { query })
  return (
    <Panel title={t.customers.tabs.grants} flush actions={may('products:read') && <Link to={`/customers/${id}/access` as '/'}>{t.customers.whyNot}</Link>}>
      <Loaded read={read}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft pad">{t.customers.noGrants}</p>
          ) : (
            <div className="scroll" tabIndex={0} role="group" aria-label={t.customers.tabs.grants}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">{t.customers.benefit}</th>
                    <th scope="col">{t.customers.state}</th>
                    <th scope="col" className="less">
                      {t.customers.columns.created}
                    </th>
                    <th scope="col">
                      <span className="hidden">{t.customers.why}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map(({ id: key, benefit, member, customer, is_granted, is_revoked, error, created_at }) => (
                    <tr key={key}>
                      <th scope="row">
                        {benefit.description}
                        <div className="soft">{member?.email ?? customer.email}</div>
                      </th>
                      <td>
                        <Status tone={is_granted ? 'good' : error ? 'bad' : 'off'}>
                          {is_granted ? t.customers.granted : is_revoked ? t.customers.revoked : error ? t.customers.failed : t.customers.notGranted}
                        </Status>
                        {error && <p className="error">{error.message}</p>}
                      </td>
                      <td className="less">
                        <Time at={created_at} />
                      </td>
                      <td>
                        <Link to={`/customers/${id}/access` as '/'} search={{ benefit: benefit.id, ...(member ? { member: member.id } : {}) } as never}>
                          {t.customers.why}
                        </Link>
                      </td>
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
export default Grants
