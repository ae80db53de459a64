import './styles/base.css'
import './styles/parts.css'
import './styles/over.css'
import './styles/table.css'
import './styles/chart.css'
import './styles/screens.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { createRoot } from 'react-dom/client'
import { queries } from './app/api.ts'
import { palette } from './app/drawers.ts'
import { island } from './app/island.ts'
import { follow } from './app/live.ts'
import { router } from './app/router.tsx'
import { enterShell } from './app/shell.ts'
import { loadTexts } from './app/texts.ts'

// Screens read texts when they are loaded, so the texts come first. The heading of the server stays until there is more to show.
await loadTexts(island.locale)
await router.load()
createRoot(document.querySelector('#app')!).render(
  <QueryClientProvider client={queries}>
    <RouterProvider router={router} />
  </QueryClientProvider>,
)
enterShell(() => palette.set(true))
follow()
