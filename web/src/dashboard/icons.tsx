import type { DashboardScreen } from '@bursar/views'

/** The line drawings of the navigation, on a grid of 16. */
const paths: Readonly<Record<DashboardScreen, string>> = {
  home: 'M2.5 7 8 2.5 13.5 7v6.5h-4V9.5h-3v4h-4z',
  orders: 'M3.5 2.5h9v11l-2.25-1.5L8 13.5 5.75 12 3.5 13.5zM6 5.5h4M6 8.5h4',
  customers:
    'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5v-.5A3.5 3.5 0 0 1 5 9.5h2a3.5 3.5 0 0 1 3.5 3.5v.5M11 3a2.5 2.5 0 0 1 0 4.2M12.5 9.8a3.5 3.5 0 0 1 2 3.2v.5',
  products: 'M8 1.75 13.75 5v6L8 14.25 2.25 11V5zM2.25 5 8 8.25 13.75 5M8 8.25v6',
  metrics: 'M2 13.5h12M4 11V8M8 11V3.5M12 11V6',
  webhooks: 'M8.75 1.75 3.5 9h4l-.25 5.25L12.5 7h-4z',
  settings: 'M2 4.5h6.5M11.5 4.5H14M10 3v3M2 11.5h2.5M7.5 11.5H14M6 10v3',
}

export const Icon = ({ name }: { name: DashboardScreen }) => (
  <svg
    viewBox="0 0 16 16"
    width="16"
    height="16"
    aria-hidden="true"
    fill="none"
    stroke="currentColor"
    strokeWidth="1.4"
    strokeLinejoin="round"
    strokeLinecap="round"
  >
    <path d={paths[name]} />
  </svg>
)
