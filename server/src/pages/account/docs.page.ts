import { defaultVersion, operations, ResourceNotFound } from '@bursar/contract'
import type { DocumentedEndpoint } from '@bursar/views'
import type { Page, PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { documentationPath, protocolPaths } from '../../modules/identity/index.ts'
import { openReference } from './reference.ts'

/** True if the operation contains each word of the filter. */
const matches = (words: readonly string[], texts: readonly string[]): boolean => {
  const text = texts.join(' ').toLowerCase()
  return words.every((word) => text.includes(word))
}

/** Shows developers the reference of all operations, and the URLs of the OAuth endpoints of this deployment. */
export const docsPages = ({ config }: Platform): Page[] => {
  const at = (path: string, base = config.public_url) => new URL(path, base).href
  const urls: Record<DocumentedEndpoint, string> = {
    discovery: at('/.well-known/openid-configuration'),
    registration: at('/v1/oauth2/register'),
    authorization: at(protocolPaths.authorization, config.auth_url),
    token: at(protocolPaths.token),
    userinfo: at(protocolPaths.userinfo),
    introspection: at(protocolPaths.introspection),
    revocation: at(protocolPaths.revocation),
    jwks: at(protocolPaths.jwks),
  }
  const endpoints = Object.entries(urls).map(([name, url]) => ({ name: name as DocumentedEndpoint, url }))
  const reference = openReference(config.public_url.origin)
  return [
    {
      method: 'GET',
      path: documentationPath,
      signedIn: false,
      handle: async ({ query }: PageCall): Promise<PageAnswer> => {
        const filter = (query.get('q') ?? '').trim().slice(0, 100)
        const words = filter.toLowerCase().split(/\s+/)
        const areas = (await reference.areas())
          .map((area) => ({
            ...area,
            operations: area.operations.filter(({ id, method, path, summary }) => matches(words, [area.name, id, method, path, summary])),
          }))
          .filter((area) => area.operations.length > 0)
        return {
          view: {
            kind: 'docs',
            areas,
            filter,
            total: operations.length,
            openapi: at(`/${defaultVersion}/openapi.json`),
            issuer: config.public_url.origin,
            endpoints,
          },
        }
      },
    },
    {
      method: 'GET',
      path: `${documentationPath}/:area`,
      signedIn: false,
      handle: async ({ params }: PageCall): Promise<PageAnswer> => {
        const found = await reference.area(params.area!)
        if (!found) throw new ResourceNotFound()
        return { view: { kind: 'reference', ...found } }
      },
    },
  ]
}
