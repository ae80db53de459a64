import { base } from './island.ts'
import { router } from './router.tsx'

/**
 * Connects the frame that the server has rendered: its links change the screen without loading the page, and the
 * current screen is marked.
 */
export const enterShell = (openPalette: () => void): void => {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('#screens a')]
  const pathOf = (link: HTMLAnchorElement) => link.pathname.slice(base.length) || '/'
  for (const link of links) {
    link.addEventListener('click', (event) => {
      if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      event.preventDefault()
      void router.navigate({ to: pathOf(link) as '/' })
    })
    link.addEventListener('pointerenter', () => void router.preloadRoute({ to: pathOf(link) as '/' }), { once: true })
  }
  const mark = () => {
    const { pathname } = router.state.location
    const path = pathname.startsWith(base) ? pathname.slice(base.length) || '/' : pathname
    for (const link of links) {
      const own = pathOf(link)
      const isHere = own === '/' ? path === '/' : path === own || path.startsWith(`${own}/`)
      if (isHere) {
        link.setAttribute('aria-current', 'page')
        // On a phone, the links are one line that scrolls sideways. The page itself must not scroll.
        const line = link.parentElement!
        line.scrollLeft = link.offsetLeft - line.offsetLeft - (line.clientWidth - link.offsetWidth) / 2
      } else link.removeAttribute('aria-current')
    }
    // The form of language and colours returns to the current screen.
    for (const field of document.querySelectorAll<HTMLInputElement>('.person [name=return_to]')) field.value = location.pathname + location.search
  }
  router.subscribe('onResolved', mark)
  mark()
  const button = document.querySelector<HTMLButtonElement>('#open-palette')!
  button.hidden = false
  button.addEventListener('click', openPalette)
  // A menu closes when the reader presses Escape or clicks elsewhere.
  document.addEventListener('click', (event) => {
    for (const menu of document.querySelectorAll<HTMLDetailsElement>('.side details[open]')) if (!menu.contains(event.target as Node)) menu.open = false
  })
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return
    for (const menu of document.querySelectorAll<HTMLDetailsElement>('.side details[open]')) {
      menu.open = false
      menu.querySelector('summary')?.focus()
    }
  })
}
