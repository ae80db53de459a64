/** The smallest and largest amounts that can be charged, in minor units as the wire counts them; most currencies share the defaults. */
const minima: Record<number, string> = {
  40: 'gbp',
  50: 'usd eur chf',
  70: 'aud cad sgd',
  80: 'jpy',
  90: 'nzd',
  100: 'awg azn bam bmd bnd bsd djf fkp gip kyd pab shp vuv xcg xpf',
  150: 'ils',
  200: 'aed bbd bzd fjd gel myr pen pln qar sar top wst xcd',
  250: 'brl ron',
  300: 'pgk',
  320: 'dkk',
  400: 'hkd sbd ttd',
  500: 'bob clp cny gtq kmf mad mop nok sek tjs xaf xof',
  800: 'krw mvr scr',
  900: 'mxn zar',
  1_000: 'bwp lsl mdl nad rwf szl zmw',
  1_500: 'czk',
  2_000: 'bif hnl nio srd thb twd uyu',
  3_000: 'egp mga try uah',
  3_500: 'php',
  4_000: 'dop gmd pyg',
  5_000: 'all cve gnf kgs mkd mur mzn',
  6_000: 'inr rsd',
  7_000: 'bdt dzd htg isk kes',
  8_000: 'etb jmd npr',
  10_000: 'lrd',
  17_500: 'huf',
  20_000: 'amd gyd lkr pkr vnd yer',
  30_000: 'crc kzt',
  50_000: 'aoa sos',
  70_000: 'ngn',
  75_000: 'ars',
  100_000: 'mwk',
  200_000: 'cdf cop mnt tzs ugx',
  300_000: 'khr',
  700_000: 'uzs',
  900_000: 'idr',
  2_000_000: 'lak',
}

const maxima: Record<number, string> = {
  140_000_000: 'ars',
  155_000_000: 'ngn',
  175_000_000: 'mwk',
  250_000_000: 'tzs',
  280_000_000: 'cdf',
  350_000_000: 'mnt',
  370_000_000: 'ugx',
  400_000_000: 'cop khr',
  1_250_000_000: 'uzs',
  1_600_000_000: 'idr',
  2_100_000_000: 'lak',
}

const byCurrency = (table: Record<number, string>) =>
  new Map(Object.entries(table).flatMap(([amount, currencies]) => currencies.split(' ').map((currency) => [currency, Number(amount)] as const)))
const smallest = byCurrency(minima)
const largest = byCurrency(maxima)

/** What can be charged in a currency, besides nothing. */
export const chargeable = (currency: string): { minimum: number; maximum: number } => ({
  minimum: smallest.get(currency) ?? 50,
  maximum: largest.get(currency) ?? 99_999_999,
})
