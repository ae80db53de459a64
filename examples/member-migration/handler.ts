// Tracks the people who may use your application, updated by webhooks. It identifies people by member id only. The
// meaning of `customer_id` changes with the switch to members; the member does not. So this file is the same before and
// after the switch.

interface Member {
  readonly id: string
  readonly email: string
}

/** The part of an event that this file reads. Events also carry a `customer_id`: the payer or the seat holder, depending on the phase. It is ignored. */
export interface Event {
  readonly type: string
  readonly data: { readonly id: string; readonly email?: string | null; readonly member?: Member | null }
}

/** People by member id, with the seats that give them access. */
export type People = Map<string, { email: string; seats: Set<string> }>

/** Applies an event. A repeated event, or one without a member, changes nothing. */
export const handle = (people: People, { type, data }: Event): void => {
  switch (type) {
    case 'customer_seat.claimed': {
      // `member` is null until the migration has prepared the members. Read all seats once after that, to add the
      // people who are missing here.
      if (!data.member) return
      const person = people.get(data.member.id) ?? { email: data.member.email, seats: new Set() }
      people.set(data.member.id, person)
      person.seats.add(data.id)
      return
    }
    case 'customer_seat.revoked': {
      const person = data.member && people.get(data.member.id)
      if (!person) return
      person.seats.delete(data.id)
      if (person.seats.size === 0) people.delete(data.member.id)
      return
    }
    case 'member.updated': {
      const person = people.get(data.id)
      if (person && data.email) person.email = data.email
      return
    }
    case 'member.deleted':
      people.delete(data.id)
  }
}

/** Lists the e-mail addresses of all people with access. */
export const inside = (people: People): string[] => [...people.values()].map(({ email }) => email).toSorted()
