import { invalidAt, type Invalid, type Organization, type ProductPriceCreate } from '@bursar/contract'
import { chargeable } from '../../../kernel/money.ts'

/** A requested price, and its index in the request for error locations. */
export interface Wanted {
  readonly price: ProductPriceCreate
  readonly at: number
}

export interface Setting {
  readonly organization: {
    readonly default_presentment_currency: string
    readonly feature_settings: Pick<NonNullable<Organization['feature_settings']>, 'seat_based_pricing_enabled'> | null
  }
  readonly recurring: boolean
  /** The organization's meters that are not archived. */
  readonly meters: ReadonlySet<string>
}

/**
 * Returns all problems with the prices of a product: of each price, of each currency, and between currencies. The
 * result is empty if the product can be sold.
 */
export const priceProblems = (wanted: readonly Wanted[], setting: Setting): Invalid[] => [
  ...wanted.flatMap((one) => alone(one, setting)),
  ...together(wanted, setting),
]

const problem = (at: number, field: string | undefined, msg: string, input?: unknown): Invalid =>
  invalidAt(['body', 'prices', at, ...(field === undefined ? [] : [field])], msg, input)

const alone = ({ price, at }: Wanted, { organization, recurring, meters }: Setting): Invalid[] => {
  switch (price.amount_type) {
    case 'fixed':
      return amount(at, 'price_amount', price.price_amount, price.price_currency)
    case 'custom': {
      const { minimum_amount, maximum_amount, preset_amount } = price
      const bounds = (['minimum_amount', 'maximum_amount', 'preset_amount'] as const).flatMap((field) =>
        price[field] === null || price[field] === undefined ? [] : amount(at, field, price[field], price.price_currency),
      )
      if (typeof maximum_amount === 'number' && maximum_amount < minimum_amount)
        bounds.push(problem(at, 'maximum_amount', `The maximum must not be below the minimum of ${minimum_amount}.`, maximum_amount))
      if (typeof preset_amount === 'number' && preset_amount !== 0 && (preset_amount < minimum_amount || preset_amount > (maximum_amount ?? Infinity)))
        bounds.push(problem(at, 'preset_amount', 'The preset must lie between the minimum and the maximum.', preset_amount))
      return bounds
    }
    case 'seat_based':
      if (!organization.feature_settings?.seat_based_pricing_enabled)
        return [problem(at, undefined, 'Seat-based pricing is not enabled for this organization.')]
      return tiers(at, price.seat_tiers.tiers)
    case 'metered_unit':
      if (!recurring) return [problem(at, undefined, 'A metered price needs a recurring product.')]
      return meters.has(price.meter_id) ? [] : [problem(at, 'meter_id', 'There is no meter with this id, or it is archived.', price.meter_id)]
  }
}

const amount = (at: number, field: string, value: number, currency: string): Invalid[] => {
  const { minimum, maximum } = chargeable(currency)
  if (value === 0 || (value >= minimum && value <= maximum)) return []
  return [problem(at, field, `In ${currency} choose 0, or between ${minimum} and ${maximum}.`, value)]
}

/** Checks that tiers are contiguous, without gap or overlap, and that only the last one is open-ended. */
const tiers = (at: number, list: Extract<ProductPriceCreate, { amount_type: 'seat_based' }>['seat_tiers']['tiers']): Invalid[] => {
  const wrong = (tier: number, field: string, msg: string, input: unknown): Invalid =>
    invalidAt(['body', 'prices', at, 'seat_tiers', 'tiers', tier, field], msg, input)
  return list.flatMap((tier, index) => {
    const before = list[index - 1]
    const problems: Invalid[] = []
    if (before && typeof before.max_seats === 'number' && tier.min_seats !== before.max_seats + 1)
      problems.push(wrong(index, 'min_seats', `This tier must begin at ${before.max_seats + 1}, directly after the previous tier.`, tier.min_seats))
    if (typeof tier.max_seats === 'number' && tier.max_seats < tier.min_seats)
      problems.push(wrong(index, 'max_seats', `This tier must not end before it begins, at ${tier.min_seats}.`, tier.max_seats))
    if (typeof tier.max_seats !== 'number' && index < list.length - 1)
      problems.push(wrong(index, 'max_seats', 'Only the last tier may be open-ended.', tier.max_seats))
    return problems
  })
}

const together = (wanted: readonly Wanted[], { organization }: Setting): Invalid[] => {
  const currencies = Map.groupBy(wanted, ({ price }) => price.price_currency)
  const problems = [...currencies].flatMap(([currency, list]) => within(currency, list))
  const home = organization.default_presentment_currency
  if (![...currencies.keys()].some((currency) => currency === home))
    problems.push({ loc: ['body', 'prices'], msg: `Give a price in ${home}, the default currency of this organization.`, type: 'value_error' })
  // A buyer who switches currency must find the same kinds of prices.
  const shape = (list: readonly Wanted[]) =>
    list
      .map(({ price }) => price.amount_type)
      .toSorted()
      .join()
  const [first, ...others] = [...currencies]
  for (const [currency, list] of others)
    if (shape(list) !== shape(first![1]))
      problems.push(problem(list[0]!.at, undefined, `The prices in ${currency} must have the same types as those in ${first![0]}.`))
  return problems
}

const within = (currency: string, list: readonly Wanted[]): Invalid[] => {
  const problems: Invalid[] = []
  const kinds = Map.groupBy(list, ({ price }) => price.amount_type)
  for (const kind of ['fixed', 'custom', 'seat_based'] as const)
    for (const twin of kinds.get(kind)?.slice(1) ?? []) problems.push(problem(twin.at, undefined, `There is already a ${kind} price in ${currency}.`))
  if (kinds.has('custom') && (kinds.has('fixed') || kinds.has('seat_based')))
    problems.push(problem(kinds.get('custom')![0]!.at, undefined, 'A custom price cannot be combined with a fixed or seat-based price.'))
  const [first, ...others] = list
  for (const other of others)
    if ((other.price.tax_behavior ?? null) !== (first!.price.tax_behavior ?? null))
      problems.push(problem(other.at, 'tax_behavior', `All prices in ${currency} must have the same tax behavior.`, other.price.tax_behavior))
  return problems
}
