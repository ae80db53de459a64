import {
  assignPortalSeat,
  getPortalCustomer,
  listPortalMembers,
  listPortalOrders,
  removePortalMember,
  resendPortalSeatInvitation,
  revokePortalSeat,
  updatePortalMember,
} from '@bursar/contract'
import { seatFilters, type PortalMember, type PortalPool, type PortalSeat, type PortalShell, type SeatFilter } from '@bursar/views'
import { Refused, type Reply } from '@bursar/contract/client'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { inviteAll } from '../inviting.ts'
import { complaintsOf, settled } from '../visits.ts'
import type { Visit } from './entering.ts'
import {
  countOf,
  doneAt,
  everyPage,
  freeSeats,
  isExpired,
  isOver,
  offerOf,
  pagesAt,
  priceOf,
  removableOf,
  seatsOf,
  subscriptionsOf,
  wantedAt,
  wantedIn,
  type Wanted,
} from './looking.ts'
import { changeAsSeen } from './subscriptions.page.ts'

interface Showing {
  readonly wanted?: Wanted
  readonly complaints?: PortalShell['complaints']
  readonly invited?: { readonly of: string } & Pick<PortalPool, 'role' | 'invited'>
}

const rows = 100

/** The team page: seats, invitations, the number of seats and roles. */
export const teamPages = (platform: Platform): Page[] => {
  const show = async (visit: Visit, more: Showing = {}): Promise<PageAnswer> => {
    const { api, call } = visit
    const now = platform.clock.wall()
    const filter = filterIn(call.query)
    const wanted = more.wanted ?? wantedAt(call)
    const [sources, members, customer, wish] = await Promise.all([
      purchasesOf(visit),
      membersOf(visit),
      api.call(getPortalCustomer, {}),
      wanted ? priceOf(api, wanted) : null,
    ])
    const everybody: PortalSeat[] = []
    const pools: PortalPool[] = []
    for (const { id, key, bounds, ...rest } of sources) {
      const found = await seatsOf(api, key)
      if (!found) continue
      everybody.push(...found.seats)
      const people = found.seats.filter((seat) => matches(seat, filter, now))
      const pages = Math.max(1, Math.ceil(people.length / rows))
      const page = Math.min(pages, call.query.get('of') === id && /^[1-9]\d{0,3}$/.test(call.query.get('page') ?? '') ? Number(call.query.get('page')) : 1)
      pools.push({
        ...rest,
        key,
        bounds,
        count: countOf(found.seats, found.total, now),
        wish: wanted?.id === id ? wish : null,
        removable: removableOf(found.seats, now),
        people: people.slice((page - 1) * rows, page * rows),
        page,
        pages,
        ...(more.invited?.of === id ? { role: more.invited.role, invited: more.invited.invited } : { role: 'member', invited: null }),
      })
    }
    const seated = new Set(everybody.filter(({ status }) => status !== 'revoked').map(({ member_id }) => member_id))
    const shell: PortalShell = { ...visit.shell, complaints: more.complaints ?? [] }
    return {
      view: {
        kind: 'portal-team',
        shell,
        company: customer.billing_name ?? customer.name,
        pools,
        others: members && members.filter(({ id }) => !seated.has(id)),
        filter,
      },
      script: true,
      ...(more.complaints?.length ? { status: 422 } : {}),
      here: `/${shell.seller.slug}/portal/team`,
    }
  }

  const invite = async (visit: Visit, form: URLSearchParams): Promise<PageAnswer> => {
    const role = form.get('role') === 'billing_manager' ? 'billing_manager' : 'member'
    const key = keyIn(form)
    const invited = await inviteAll(visit.api, key, form.get('addresses') ?? '', role)
    try {
      return await show(visit, { invited: { of: 'order_id' in key ? key.order_id : key.subscription_id, role, invited } })
    } catch (error) {
      // Shows the invitation results even if the API refuses the data of the team page.
      if (error instanceof Refused)
        return { view: { kind: 'portal-invited', shell: visit.shell, invited }, script: true, here: `/${visit.shell.seller.slug}/portal/team` }
      throw error
    }
  }

  const take = async (visit: Visit, form: URLSearchParams): Promise<PageAnswer> => {
    const { api } = visit
    const seat = { params: { seat_id: form.get('seat_id') ?? '' } }
    const answered = (answer: Reply<unknown>, done: string): PageAnswer | Promise<PageAnswer> =>
      answer.status < 300 ? doneAt(visit, '/team', done) : show(visit, { complaints: complaintsOf(answer).map((one) => ({ ...one, loc: [] })) })
    switch (form.get('do') ?? '') {
      case 'price':
        return show(visit, { wanted: wantedIn(form) })
      case 'change': {
        const wanted = wantedIn(form)
        const changed = await changeAsSeen(visit, wanted)
        return changed === true ? doneAt(visit, '/team', 'seats_changed') : show(visit, { wanted, ...(changed ? { complaints: changed } : {}) })
      }
      case 'free': {
        const freed = await freeSeats(visit, form, '/team')
        return Array.isArray(freed) ? show(visit, { wanted: wantedIn(form), complaints: freed }) : freed
      }
      case 'invite':
        return invite(visit, form)
      case 'seat':
        return answered(await api.send(assignPortalSeat, { body: { ...keyIn(form), member_id: form.get('member_id') } }), 'invited')
      case 'resend':
        return answered(await api.send(resendPortalSeatInvitation, seat), 'resent')
      case 'revoke':
        return answered(await api.send(revokePortalSeat, seat), 'revoked')
      case 'remove':
        return answered(await api.send(removePortalMember, { params: { id: form.get('member_id') ?? '' } }), 'removed')
      case 'role':
        return answered(
          await api.send(updatePortalMember, { params: { id: form.get('member_id') ?? '' }, body: { role: form.get('role') as PortalMember['role'] } }),
          'role_changed',
        )
    }
    return show(visit)
  }
  return pagesAt(platform, '/team', (visit) => show(visit), take)
}

export const keyIn = (form: URLSearchParams): PortalPool['key'] =>
  form.get('order_id') ? { order_id: form.get('order_id')! } : { subscription_id: form.get('subscription_id') ?? '' }

const filterIn = (query: URLSearchParams): { status: SeatFilter; query: string } => ({
  status: seatFilters.find((one) => one === query.get('status')) ?? 'current',
  query: (query.get('query') ?? '').trim().slice(0, 254),
})

const statusOf = (seat: PortalSeat, now: Date): Exclude<SeatFilter, 'current'> =>
  seat.status === 'claimed' ? 'active' : seat.status === 'revoked' ? 'revoked' : isExpired(seat, now) ? 'expired' : 'invited'

const matches = (seat: PortalSeat, { status, query }: { status: SeatFilter; query: string }, now: Date): boolean => {
  const is = statusOf(seat, now)
  const wanted = query.toLowerCase()
  const named = [seat.email, seat.customer_email, seat.member?.email, seat.member?.name].some((text) => text?.toLowerCase().includes(wanted))
  return (status === 'current' ? is !== 'revoked' : is === status) && (wanted === '' || named)
}

/** Lists the purchases with seats: current subscriptions and one-time orders. */
const purchasesOf = async (visit: Visit) => {
  const { api } = visit
  const [subscriptions, { rights }, orders] = await Promise.all([
    subscriptionsOf(api),
    offerOf(visit),
    api.call(listPortalOrders, { query: { product_billing_type: ['one_time'], limit: 100 } }),
  ])
  return [
    ...subscriptions
      .filter((one) => one.seats !== null && !isOver(one))
      .map(({ id, product, prices, cancel_at_period_end, pending_update }) => {
        const tiers = prices.flatMap((price) => (price.amount_type === 'seat_based' ? [price.seat_tiers] : []))[0]
        const open = rights.seats && !cancel_at_period_end && tiers
        return {
          id,
          key: { subscription_id: id },
          name: product.name,
          gives: product.benefits.map(({ description }) => description),
          bounds: open ? { least: tiers.minimum_seats, most: tiers.maximum_seats } : null,
          pending: pending_update,
        }
      }),
    ...orders.items
      .filter(({ seats, status }) => seats !== null && status !== 'void' && status !== 'pending')
      .map(({ id, product, description }) => ({
        id,
        key: { order_id: id },
        name: product?.name ?? description,
        gives: product?.benefits.map((benefit) => benefit.description) ?? [],
        bounds: null,
        pending: null,
      })),
  ]
}

/** Loads the team. Null if the reader may not manage it, for example for a customer without members. */
const membersOf = async ({ api }: Visit): Promise<PortalMember[] | null> => {
  const first = await api.send(listPortalMembers, { query: { limit: 100 } })
  if (settled(first).status !== 200) return null
  return everyPage((page) => (page === 1 ? Promise.resolve(first.body) : api.call(listPortalMembers, { query: { page, limit: 100 } })))
}
