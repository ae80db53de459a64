import type { Operation } from '@bursar/contract/kit'
import { useEffect } from 'react'
import { store } from './waiting.ts'

/** Whether the palette, the list of keys and the drawer "As code" are open. */
export const palette = store(false)
export const help = store(false)
export const codeDrawer = store(false)

/** A request as the drawer shows it. */
export interface CodeRequest {
  readonly operation: Pick<Operation, 'id' | 'method' | 'path'>
  readonly input: { readonly params?: unknown; readonly query?: unknown; readonly body?: unknown }
}
export const shown = store<CodeRequest | null>(null)

/** Names the request that the current screen is about, for the drawer "As code". */
export const useAsCode = (operation: CodeRequest['operation'], input: CodeRequest['input']): void => {
  const key = JSON.stringify([operation.id, input])
  useEffect(() => {
    shown.set({ operation, input })
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- the key contains both
  }, [key])
}
