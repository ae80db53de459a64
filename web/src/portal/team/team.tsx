import { seatFilters, type Frame, type PortalMember, type PortalPool, type PortalShell, type View } from '@bursar/views'
import { Confirm, Form, Notice, textsIn } from '../../kit/index.ts'
import { InviteResults, invitingTexts, isEmpty, leftOf } from '../../kit/inviting/inviting.tsx'
import { Pages } from '../pages.tsx'
import { SeatBar } from '../plan.tsx'
import { PriceForm } from '../price.tsx'
import { Portal } from '../shell.tsx'
import { Dated, Zone } from '../dated.tsx'
import { portalTexts } from '../texts.ts'
import { People, RoleForm } from './people.tsx'
import { texts } from './texts.ts'

type Props = { view: Extract<View, { kind: 'portal-team' }>; frame: Frame }

/** The hidden field that identifies the purchase. */
export const PoolKey = ({ pool }: { pool: Pick<PortalPool, 'key'> }) =>
  'order_id' in pool.key ? (
    <input type="hidden" name="order_id" value={pool.key.order_id} />
  ) : (
    <input type="hidden" name="subscription_id" value={pool.key.subscription_id} />
  )

const idOf = ({ key }: PortalPool): string => ('order_id' in key ? key.order_id : key.subscription_id)

/** The team page, with one section for each purchase: seat holders, number of seats and roles. */
export const Team = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const { shell, pools, others } = view
  const here = `/${shell.seller.slug}/portal/team`
  const title = view.company === null ? words.title : words.titleOf(view.company)
  return (
    <Portal frame={frame} shell={shell} section="team" title={title}>
      <h1>{title}</h1>
      {pools.length === 0 && <p className="empty">{words.none}</p>}
      {pools.map((pool) => (
        <Pool key={idOf(pool)} view={view} frame={frame} pool={pool} here={here} />
      ))}
      {others !== null && others.length > 0 && <Others frame={frame} shell={shell} people={others} pool={pools[0]} here={here} />}
      <Zone frame={frame} />
    </Portal>
  )
}

/** The invitation results, if the team page cannot be shown. A link leads back to it. */
export const InvitedAlone = ({ view: { shell, invited }, frame }: { view: Extract<View, { kind: 'portal-invited' }>; frame: Frame }) => {
  const words = textsIn(frame, texts)
  const base = `/${shell.seller.slug}/portal`
  return (
    <Portal frame={frame} shell={shell} section="team" title={words.title}>
      <h1>{words.title}</h1>
      <InviteResults frame={frame} invited={invited} signIn={`${base}/sign-in`} send={null} />
      <p>
        <a href={`${base}/team`}>{words.title}</a>
      </p>
    </Portal>
  )
}

const Pool = ({ view, frame, pool, here }: Props & { pool: PortalPool; here: string }) => {
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, portalTexts)
  const { shell, filter } = view
  const id = idOf(pool)
  const { total, active, invited } = pool.count
  const free = Math.max(0, total - active - invited)
  const searching = filter.status !== 'current' || filter.query !== ''
  const me = shell.reader.email.toLowerCase()
  const alone = pool.people.every((seat) => (seat.customer_email ?? seat.email)?.toLowerCase() === me)
  return (
    <section className="card pool" aria-labelledby={`pool-${id}`}>
      <h2 id={`pool-${id}`}>{pool.name}</h2>
      <SeatBar frame={frame} count={pool.count} />
      {pool.pending?.seats != null && (
        <Notice kind="warn">
          <Dated frame={frame} at={pool.pending.applies_at} text={(day) => shared.waiting(shared.seats(pool.pending!.seats!), day)} />
        </Notice>
      )}
      <div className="halves">
        <Invite frame={frame} pool={pool} here={here} free={free} />
        <div>
          <h3>{words.count}</h3>
          {'subscription_id' in pool.key && pool.bounds ? (
            <PriceForm
              frame={frame}
              action={here}
              billing={`/${shell.seller.slug}/portal/billing`}
              flow={null}
              subscription_id={pool.key.subscription_id}
              wish={pool.wish}
              seats={{ now: total, ...pool.bounds }}
              removable={pool.removable}
              reader={shell.reader.email}
              taken={active + invited}
            />
          ) : (
            <p className="soft">{words.fixed}</p>
          )}
        </div>
      </div>
      <h3 id={`people-${id}`}>{words.people}</h3>
      {!searching && alone && <p className="soft">{pool.people.length === 0 ? words.nobody(free) : words.alone(free)}</p>}
      {(searching || !alone) && (
        <form method="get" action={here} className="filter" aria-label={words.filter}>
          <label>
            <span>{words.status}</span>
            <select name="status" defaultValue={filter.status}>
              {seatFilters.map((status) => (
                <option key={status} value={status}>
                  {shared.seatStatuses[status]}
                </option>
              ))}
            </select>
          </label>
          <label>
            <span>{words.query}</span>
            <input name="query" defaultValue={filter.query} autoComplete="off" />
          </label>
          <button>{words.search}</button>
        </form>
      )}
      {pool.people.length > 0 ? (
        <People frame={frame} shell={shell} pool={pool} here={here} leads={view.others !== null} />
      ) : (
        searching && (
          <p className="empty">
            {words.noMatch} <a href={here}>{words.clear}</a>
          </p>
        )
      )}
      <Pages
        frame={frame}
        page={pool.page}
        pages={pool.pages}
        href={(page) => `${here}?${new URLSearchParams({ of: id, page: String(page), status: filter.status, query: filter.query }).toString()}`}
      />
    </section>
  )
}

const Invite = ({ frame, pool, here, free }: { frame: Frame; pool: PortalPool; here: string; free: number }) => {
  const shared = textsIn(frame, portalTexts)
  const words = textsIn(frame, texts)
  const id = idOf(pool)
  const { invited } = pool
  const full = invited?.people.filter(({ result }) => result === 'no_seat').length ?? 0
  const nothing = isEmpty(invited)
  return (
    <div id={`invite-${id}`}>
      <h3>{words.invite}</h3>
      {invited && <InviteResults frame={frame} invited={invited} signIn={here.replace(/team$/, 'sign-in')} send={`invite-${id}-send`} />}
      {full > 0 && <p role="status">{words.full(full)}</p>}
      {free === 0 && full === 0 && <p className="soft">{words.allTaken}</p>}
      {(free === 0 || full > 0) && pool.bounds && 'subscription_id' in pool.key && (
        <Form frame={frame} action={here}>
          <PoolKey pool={pool} />
          <input type="hidden" name="what" value="seats" />
          <input type="hidden" name="value" value={pool.count.total + Math.max(1, full)} />
          <button name="do" value="price">
            {words.add(Math.max(1, full))}
          </button>
        </Form>
      )}
      <Form frame={frame} action={here}>
        <input type="hidden" name="do" value="invite" />
        <PoolKey pool={pool} />
        <div className="field">
          <label htmlFor={`addresses-${id}`}>{words.addresses}</label>
          <p id={`addresses-${id}-hint`} className="soft">
            {words.addressesHint}
          </p>
          <textarea
            id={`addresses-${id}`}
            name="addresses"
            rows={4}
            required
            spellCheck={false}
            autoComplete="off"
            autoCapitalize="none"
            defaultValue={leftOf(invited)}
            aria-describedby={`addresses-${id}-hint${nothing ? ` addresses-${id}-error` : ''}`}
            aria-invalid={nothing ? true : undefined}
          />
          {nothing && (
            <p id={`addresses-${id}-error`} className="error">
              {textsIn(frame, invitingTexts).none}
            </p>
          )}
        </div>
        <fieldset>
          <legend>{words.role}</legend>
          {(['member', 'billing_manager'] as const).map((role) => (
            <label key={role} className="choice">
              <input type="radio" name="role" value={role} defaultChecked={pool.role === role} />
              <span>
                {shared.roles[role]} <span className="soft">{words.may[role]}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <button id={`invite-${id}-send`} className="primary">
          {words.submit}
        </button>
      </Form>
    </div>
  )
}

/** The team members without a seat. */
const Others = ({
  frame,
  shell,
  people,
  pool,
  here,
}: {
  frame: Frame
  shell: PortalShell
  people: readonly PortalMember[]
  pool: PortalPool | undefined
  here: string
}) => {
  const shared = textsIn(frame, portalTexts)
  const words = textsIn(frame, texts)
  return (
    <section className="card" aria-labelledby="others">
      <h2 id="others">{words.others}</h2>
      <ul className="rows">
        {people.map((member) => (
          <li key={member.id}>
            <div>
              <strong>{member.name ?? member.email}</strong> {member.email === shell.reader.email && <span className="tag">{words.you}</span>}
              <p className="soft facts">
                {member.name && <span>{member.email}</span>}
                <span>{shared.roles[member.role]}</span>
              </p>
            </div>
            <details className="menu">
              <summary>
                {words.manage} <span className="hidden">{member.email}</span>
              </summary>
              <RoleForm frame={frame} shell={shell} member={member} here={here} />
              {pool && pool.count.active + pool.count.invited < pool.count.total && (
                <Form frame={frame} action={here}>
                  <input type="hidden" name="do" value="seat" />
                  <PoolKey pool={pool} />
                  <input type="hidden" name="member_id" value={member.id} />
                  <button>{words.giveSeat}</button>
                </Form>
              )}
              {member.role !== 'owner' && member.email !== shell.reader.email && (
                <Confirm label={words.remove} consequence={words.removes(member.email)}>
                  <Form frame={frame} action={here}>
                    <input type="hidden" name="member_id" value={member.id} />
                    <button className="danger" name="do" value="remove">
                      {words.removeNow}
                    </button>
                  </Form>
                </Confirm>
              )}
            </details>
          </li>
        ))}
      </ul>
    </section>
  )
}
