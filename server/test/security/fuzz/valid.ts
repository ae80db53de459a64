import type { Operation } from '@bursar/contract'
import { policy, type Policy, type Verdicts } from '../matrix/policy.ts'
import type { Valid } from './drafts.ts'
import { recipes } from './recipes/recipes.ts'
import { credentialKinds, type CredentialKind, type Stage, type Tenant } from './stage.ts'

/** Makes the resources of a valid request. Returns a function that writes the request for a credential. */
export type Make = (stage: Stage, tenant: Tenant) => Promise<(kind: CredentialKind) => Valid>

export interface Source {
  /** Credentials that the operation accepts. */
  readonly allowed: readonly CredentialKind[]
  readonly make: Make
}

const isVerdicts = (who: Policy['who']): who is Verdicts => typeof who === 'object' && 'nobody' in who

const allowedBy = (row: Policy): readonly CredentialKind[] => {
  if (row.who === 'open') return ['none']
  if (row.who === 'person') return ['session']
  if (row.who === 'portal') return [...(row.portal?.includes('customer') ? (['customer'] as const) : []), 'member']
  if (isVerdicts(row.who)) return ['session']
  return credentialKinds.filter((kind) => (row.who as readonly string[]).includes(kind) && !(kind === 'oauth' && row.confined))
}

/** Returns where valid requests of an operation come from: a recipe of the fuzzer, else the row of the matrix. */
export const sourceOf = (operation: Operation): Source | undefined => {
  const row = policy[operation.id]
  const recipe = recipes[operation.id]
  if (recipe) return { allowed: recipe.allowed ?? (row ? allowedBy(row) : ['none']), make: recipe.make }
  if (!row) return undefined
  return {
    allowed: allowedBy(row),
    make: async ({ seeds }, { organization, people, crew }) => {
      const owner = isVerdicts(row.who) ? people.admin.id : people.owner.id
      const target = row.who === 'portal' ? await crew.ofCrew(row) : await seeds.furnish(organization.id, owner, people.admin.id, row)
      return (kind) => row.ask(row.implied && kind === 'organization' ? { ...target, organization_id: '' } : target)
    },
  }
}
