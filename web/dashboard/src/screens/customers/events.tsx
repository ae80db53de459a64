import { listEvents } from '@bursar/contract'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { t } from '../../app/texts.ts'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'
import { Timeline } from '../../kit/timeline.tsx'

/** The events about a customer, as webhooks deliver them. */
const Events = ({ id }: { id: string }) => {
  const query = { customer_id: [id], limit: 100 }
  const read = useRead(listEvents, { query })
  useAsCode(listEvents, { query })
  return (
    <Panel title={t.customers.tabs.events}>
      <Loaded read={read}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft">{t.customers.noEvents}</p>
          ) : (
            <Timeline
              moments={items.map(({ id: key, type, recorded_at, sequence }) => ({
                id: key,
                at: recorded_at,
                title: <code>{type}</code>,
                detail: `#${sequence}`,
              }))}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}
export default Events
