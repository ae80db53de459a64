// Who may use your application, kept up by webhooks. It names people by their member and by nothing else: what
// `customer_id` says changes with the switch, who the member is does not. So this file is the same on both sides of it.

interface Member {
  readonly id: string
  readonly email: string
}

/** As much of an event as is read here. There is a `customer_id` in it: it says who pays, or who holds the seat, and is left alone. */
export interface Event {
  readonly type: string
  readonly data: { readonly id: string; readonly email?: string | null; readonly member?: Member | null }
}

/** Each person by the id of their member, with the seats that let them in. */
export type People = Map<string, { email: string; seats: Set<string> }>

/** Takes an event in. The same event twice, or one that is about nobody yet, changes nothing. */
export const handle = (people: People, { type, data }: Event): void => {
  switch (type) {
    case 'customer_seat.claimed': {
      // Null before the members are prepared: they are told of then, by whoever reads the seats once more.
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

/** Who is in, for whoever asks. */
export const inside = (people: People): string[] => [...people.values()].map(({ email }) => email).toSorted()
