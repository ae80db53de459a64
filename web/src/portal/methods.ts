import type { Frame, PortalMethod } from '@bursar/views'
import { textsIn } from '../kit/index.ts'
import { portalTexts } from './texts.ts'

/** Returns the name of a saved payment method. */
export const methodName = (frame: Frame, method: PortalMethod): string => {
  const { card } = textsIn(frame, portalTexts)
  if (!('method_metadata' in method)) return method.type
  const { brand, last4 } = method.method_metadata
  return card(cap(brand), last4)
}

export const cap = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)
