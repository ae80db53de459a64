import { useNavigate, useRouterState } from '@tanstack/react-router'

/** The query of an address: every value is text or a list of texts. The address alone determines what a screen shows. */
export type Search = Readonly<Record<string, string | readonly string[] | undefined>>

export const parseSearch = (text: string): Search => {
  const found: Record<string, string | string[]> = {}
  for (const [key, value] of new URLSearchParams(text)) {
    const before = found[key]
    found[key] = before === undefined ? value : [...[before].flat(), value]
  }
  return found
}

export const stringifySearch = (search: Search): string => {
  const text = new URLSearchParams()
  for (const [key, value] of Object.entries(search)) for (const one of [value ?? []].flat()) if (one !== '') text.append(key, one)
  return text.size === 0 ? '' : `?${text.toString()}`
}

export const useSearch = (): Search => useRouterState({ select: ({ location }) => location.search as Search })

/** Returns a function that changes parts of the query. `undefined` removes a part. */
export const useSetSearch = () => {
  const navigate = useNavigate()
  return (change: Search, { replace = false }: { readonly replace?: boolean } = {}) =>
    void navigate({ to: '.', search: (before: Search) => ({ ...before, ...change }), replace, resetScroll: false } as never)
}

export const one = (value: Search[string]): string | undefined => (typeof value === 'string' ? value : value?.[0])
export const many = (value: Search[string]): readonly string[] => (value === undefined ? [] : typeof value === 'string' ? [value] : value)
