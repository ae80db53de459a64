import { defaultVersion } from '@bursar/contract'
import type { DocumentedEndpoint } from '@bursar/views'
import type { Page, Platform } from '../../modules/handlers.ts'
import { documentationPath, protocolPaths } from '../../modules/identity/index.ts'

/** Shows developers the URLs of the API description and of the OAuth endpoints of this deployment. */
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
  return [
    {
      method: 'GET',
      path: documentationPath,
      signedIn: false,
      handle: async () => ({ view: { kind: 'docs', openapi: at(`/${defaultVersion}/openapi.json`), issuer: config.public_url.origin, endpoints } }),
    },
  ]
}
