import type { ComponentType } from 'react'
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { base } from './island.ts'
import { parseSearch, stringifySearch, type Search } from './search.ts'
import { addTexts, type Texted } from './texts.ts'
import { Missing, Root, ScreenFailed } from './root.tsx'

const root = createRootRoute({
  component: Root,
  notFoundComponent: Missing,
  errorComponent: ScreenFailed,
  validateSearch: (search): Search => search as Search,
})
/** A screen with its texts. Both are loaded when the screen is opened, or when the pointer rests on a link to it. */
const at = <const P extends string, M extends Record<string, unknown>>(path: P, texts: readonly Texted[], load: () => Promise<M>, name: keyof M & string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyRouteComponent(async () => {
      // A screen reads its texts while its module is evaluated.
      await addTexts(texts)
      return (await load()) as Record<string, ComponentType>
    }, name),
  })

const routes = [
  at('/', ['home', 'orders'], () => import('../screens/home/home.tsx'), 'Home'),
  at('/orders', ['orders'], () => import('../screens/orders/orders.tsx'), 'Orders'),
  at('/orders/$id', ['orders', 'sale', 'customers'], () => import('../screens/orders/order.tsx'), 'OrderScreen'),
  at('/customers', ['customers'], () => import('../screens/customers/customers.tsx'), 'Customers'),
  at('/customers/$id', ['customers', 'orders'], () => import('../screens/customers/customer.tsx'), 'CustomerScreen'),
  at('/customers/$id/access', ['customers', 'orders'], () => import('../screens/customers/why.tsx'), 'WhyAccess'),
  at('/products', ['products'], () => import('../screens/products/products.tsx'), 'Products'),
  at('/products/new', ['products'], () => import('../screens/products/new.tsx'), 'NewProduct'),
  at('/products/$id', ['products'], () => import('../screens/products/product.tsx'), 'ProductScreen'),
  at('/metrics', ['metrics'], () => import('../screens/metrics/metrics.tsx'), 'Metrics'),
  at('/metrics/$slug', ['metrics'], () => import('../screens/metrics/metric.tsx'), 'MetricScreen'),
  at('/webhooks', ['webhooks'], () => import('../screens/webhooks/webhooks.tsx'), 'Webhooks'),
  at('/webhooks/$id', ['webhooks'], () => import('../screens/webhooks/endpoint.tsx'), 'EndpointScreen'),
  at('/webhooks/events/$id', ['webhooks'], () => import('../screens/webhooks/event.tsx'), 'EventScreen'),
  at('/settings', ['settings', 'home'], () => import('../screens/settings/settings.tsx'), 'Settings'),
]

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: base,
  defaultPreload: 'intent',
  scrollRestoration: true,
  parseSearch: parseSearch as (text: string) => Record<string, unknown>,
  stringifySearch: stringifySearch as (search: Record<string, unknown>) => string,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
