/** The properties of a drawing that the stylesheet sets. A picture has no stylesheet, so its elements carry them. */
const painted = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size', 'font-family'] as const
const title = { size: 15, height: 46, left: 12 }
const subtitle = { size: 11, at: 38 }
/** Pixels for each unit of a drawing, so that texts stay sharp. */
const density = 2

/** Returns the drawing that is shown in a part of the screen. Others are for screens of another width. */
export const shownDrawing = (part: Element | null): SVGSVGElement | undefined =>
  [...(part?.querySelectorAll('svg') ?? [])].find((svg) => svg.getBoundingClientRect().width > 0)

/** Saves a drawing as a PNG file, with two lines of text above it and in the colors of the screen. */
export const savePicture = async (svg: SVGSVGElement, name: string, about: string, file: string): Promise<void> => {
  const { width, height } = svg.viewBox.baseVal
  const copy = svg.cloneNode(true) as SVGSVGElement
  const originals = svg.querySelectorAll('*')
  for (const [at, element] of copy.querySelectorAll('*').entries()) {
    const style = getComputedStyle(originals[at]!)
    for (const property of painted) element.setAttribute(property, style.getPropertyValue(property))
  }
  copy.setAttribute('width', String(width * density))
  copy.setAttribute('height', String(height * density))
  const image = new Image()
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`
  await image.decode()
  const canvas = document.createElement('canvas')
  canvas.width = width * density
  canvas.height = (height + title.height) * density
  const pen = canvas.getContext('2d')!
  const style = getComputedStyle(document.body)
  pen.fillStyle = style.backgroundColor
  pen.fillRect(0, 0, canvas.width, canvas.height)
  pen.scale(density, density)
  pen.fillStyle = style.color
  pen.font = `600 ${title.size}px ${style.fontFamily}`
  pen.fillText(name, title.left, title.size + 4)
  pen.font = `${subtitle.size}px ${style.fontFamily}`
  pen.fillText(about, title.left, subtitle.at)
  pen.drawImage(image, 0, title.height, width, height)
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'))
  if (blob === null) return
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = `${file}.png`
  link.click()
  URL.revokeObjectURL(link.href)
}
