import { webhook } from '../kit/index.ts'
import { Checkout } from './checkouts.ts'

export const checkoutCreated = webhook('checkout.created', Checkout, 'A checkout is created.')
export const checkoutUpdated = webhook('checkout.updated', Checkout, 'A checkout changes, including its status.')
export const checkoutExpired = webhook('checkout.expired', Checkout, 'A checkout expires unpaid.')
