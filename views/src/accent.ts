/**
 * The accent colour of a seller with corrected contrast. A seller may choose any colour. Its lightness is changed as
 * little as possible, and its hue is kept, until texts and buttons are readable in both themes (WCAG 2.2, 1.4.3 and 1.4.11).
 */
export interface Accent {
  /** The colour of links, of focus rings and of marks: 4.5 to 1 on every surface. */
  readonly text: string
  /** The background of the main button: 3 to 1 against the page and its cards. */
  readonly fill: string
  /** The text on the main button: 4.5 to 1 against `fill`. */
  readonly on_fill: string
}

/** The surfaces on which texts stand, in each theme: the colours of `web/src/kit/tokens.css`. The first two are the page and its cards. */
export const surfaces = {
  light: ['#f7f7f8', '#ffffff', '#f0f1f3', '#fdf0d5', '#e6f4ec', '#fdeceb'],
  dark: ['#0f1113', '#17191c', '#24272b', '#3a2a0c', '#15352a', '#46191b'],
} as const
export type Scheme = keyof typeof surfaces

type Triple = readonly [number, number, number]

const linear = (value: number): number => (value <= 0.040_45 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
const encoded = (value: number): number => (value <= 0.003_130_8 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055)
const readHex = (hex: string): Triple => [1, 3, 5].map((at) => linear(Number.parseInt(hex.slice(at, at + 2), 16) / 255)) as unknown as Triple
const writeHex = (rgb: Triple): string =>
  `#${rgb
    .map((value) =>
      Math.round(Math.min(1, Math.max(0, encoded(Math.min(1, Math.max(0, value))))) * 255)
        .toString(16)
        .padStart(2, '0'),
    )
    .join('')}`

/** Returns the relative luminance of WCAG 2: 0 is black, 1 is white. */
const luminanceOf = (hex: string): number => {
  const [red, green, blue] = readHex(hex)
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Returns the contrast ratio of WCAG 2: 1 is none, 21 is black on white. */
export const contrastOf = (one: string, other: string): number => {
  const [darker = 0, lighter = 0] = [luminanceOf(one), luminanceOf(other)].toSorted((a, b) => a - b)
  return (lighter + 0.05) / (darker + 0.05)
}

/** Converts a colour to Oklab, in which equal steps look equal. */
const toOklab = ([red, green, blue]: Triple): Triple => {
  const long = Math.cbrt(0.412_221_470_8 * red + 0.536_332_536_3 * green + 0.051_445_992_9 * blue)
  const middle = Math.cbrt(0.211_903_498_2 * red + 0.680_699_545_1 * green + 0.107_396_956_6 * blue)
  const short = Math.cbrt(0.088_302_461_9 * red + 0.281_718_837_6 * green + 0.629_978_700_5 * blue)
  return [
    0.210_454_255_3 * long + 0.793_617_785 * middle - 0.004_072_046_8 * short,
    1.977_998_495_1 * long - 2.428_592_205 * middle + 0.450_593_709_9 * short,
    0.025_904_037_1 * long + 0.782_771_766_2 * middle - 0.808_675_766 * short,
  ]
}
const fromOklab = ([light, a, b]: Triple): Triple => {
  const long = (light + 0.396_337_777_4 * a + 0.215_803_757_3 * b) ** 3
  const middle = (light - 0.105_561_345_8 * a - 0.063_854_172_8 * b) ** 3
  const short = (light - 0.089_484_177_5 * a - 1.291_485_548 * b) ** 3
  return [
    4.076_741_662_1 * long - 3.307_711_591_3 * middle + 0.230_969_929_2 * short,
    -1.268_438_004_6 * long + 2.609_757_401_1 * middle - 0.341_319_396_5 * short,
    -0.004_196_086_3 * long - 0.703_418_614_7 * middle + 1.707_614_701 * short,
  ]
}

/** Returns the colour with another lightness and the same hue. Reduces its chroma as far as the screen requires. */
const withLightness = ([, a, b]: Triple, light: number): string => {
  const isShown = (rgb: Triple) => rgb.every((value) => value >= -0.000_1 && value <= 1.000_1)
  let [least, most] = [0, 1]
  if (isShown(fromOklab([light, a, b]))) return writeHex(fromOklab([light, a, b]))
  for (let step = 0; step < 16; step++) {
    const share = (least + most) / 2
    if (isShown(fromOklab([light, a * share, b * share]))) least = share
    else most = share
  }
  return writeHex(fromOklab([light, a * least, b * least]))
}

/**
 * Returns the colour whose lightness is nearest to the given one and that passes the test. `towards` is 0 for darker and
 * 1 for lighter colours. Black or white always pass.
 */
const nearest = (hex: string, towards: 0 | 1, passes: (candidate: string) => boolean): string => {
  if (passes(hex)) return hex
  const lab = toOklab(readHex(hex))
  let [fails, good] = [lab[0], towards as number]
  let found = towards === 0 ? '#000000' : '#ffffff'
  for (let step = 0; step < 16; step++) {
    const light = (fails + good) / 2
    const candidate = withLightness(lab, light)
    if (passes(candidate)) {
      good = light
      found = candidate
    } else fails = light
  }
  return found
}

/** A margin over the limits, so that a rounded colour passes too. */
const margin = 0.02

/** Corrects an accent colour for one theme. */
export const accentOf = (hex: string, scheme: Scheme): Accent => {
  const away = scheme === 'light' ? 0 : 1
  const text = nearest(hex, away, (candidate) => surfaces[scheme].every((surface) => contrastOf(candidate, surface) >= 4.5 + margin))
  const [page, card] = surfaces[scheme]
  const visible = nearest(hex, away, (candidate) => [page, card].every((surface) => contrastOf(candidate, surface) >= 3 + margin))
  // White text on a colour of middle lightness needs a slightly darker button. It looks better than black text.
  const onWhite = contrastOf(visible, '#ffffff') >= 3
  const on_fill = onWhite ? '#ffffff' : '#000000'
  const readable = nearest(visible, onWhite ? 0 : 1, (candidate) => contrastOf(candidate, on_fill) >= 4.5 + margin)
  return { text, fill: readable, on_fill }
}

/** Returns the style rules that give the pages of a seller its accent colour. Empty if the seller has none. */
export const accentStyle = (accent: string | null): string => {
  if (accent === null || !/^#[0-9a-f]{6}$/.test(accent)) return ''
  const [light, dark] = [accentOf(accent, 'light'), accentOf(accent, 'dark')]
  const pair = (part: keyof Accent) => `light-dark(${light[part]},${dark[part]})`
  return `:root{--accent:${pair('text')};--button:${pair('fill')};--on-button:${pair('on_fill')}}`
}
