/** The accent of mails without one of the seller's: dark in a light mail, and light in a dark one. */
const neutral = '#1b1f23'

const luminanceOf = (color: string): number => {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(color.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Returns the contrast of two colours, as WCAG defines it. */
export const contrastOf = (one: string, other: string): number => {
  const [low, high] = [luminanceOf(one), luminanceOf(other)].toSorted((a, b) => a - b) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

/**
 * Returns the colours of the button: the accent, and the one of white and black with the higher contrast to it. Every accent has a
 * contrast of at least 4.5 to one of them. `is_dark` is true if the accent would vanish on a dark page.
 */
export const buttonColors = (accent: string | null): { background: string; color: string; is_dark: boolean } => {
  const background = accent !== null && /^#[0-9a-f]{6}$/i.test(accent) ? accent : neutral
  const color = contrastOf(background, '#ffffff') >= contrastOf(background, '#000000') ? '#ffffff' : '#000000'
  return { background, color, is_dark: contrastOf(background, '#1c2024') < 1.6 }
}
