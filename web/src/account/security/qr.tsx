import { encodeQR } from 'qr'

/** The light border that scanners need, in modules of the code. */
const border = 4

/**
 * A QR code as SVG. It is dark on white in every theme, because scanners expect that. Colours are attributes, because the
 * content security policy forbids inline styles.
 */
export const QrCode = ({ text, label }: { text: string; label: string }) => {
  const rows = encodeQR(text, 'raw', { ecc: 'medium', border })
  const path = rows.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('')
  return (
    <svg className="qr" role="img" aria-label={label} viewBox={`0 0 ${rows.length} ${rows.length}`} width="200" height="200" shapeRendering="crispEdges">
      <rect width={rows.length} height={rows.length} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  )
}
