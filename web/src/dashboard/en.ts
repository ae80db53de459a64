export const en = {
  title: 'Dashboard',
  navigation: 'Dashboard',
  screens: { home: 'Home', orders: 'Orders', customers: 'Customers', products: 'Products', metrics: 'Metrics', webhooks: 'Webhooks', settings: 'Settings' },
  organizations: 'Choose an organization',
  search: 'Search or jump to',
  account: 'Account settings',
  you: 'Your account',
  side: 'Organization and account',
  needsScript: 'The dashboard needs JavaScript. Allow it for this site, and load the page again.',
  loading: 'Loading',
  closed: {
    no_organization: {
      title: 'No organization yet',
      text: 'You belong to no organization. Ask its owner for an invitation, or ask the operator of this deployment to create one.',
      link: 'Account settings',
      href: '/settings/apps',
    },
    no_second_factor: {
      title: 'Add a second factor first',
      text: 'You operate this deployment. Operators can open the dashboard only after they have signed in with a second factor.',
      link: 'Set up a second factor',
      href: '/settings/security',
    },
  },
}
