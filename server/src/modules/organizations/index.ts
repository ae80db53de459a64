import { job, periodicTask, type Area } from '../handlers.ts'
import { operations as auditLog } from './audit-log/audit-log.api.ts'
import { copyLogo, copyMissingLogos } from './logos/logos.ts'
import { purge } from './mail-reports/mail-reports.ts'
import { operations as organizations } from './organizations/organizations.api.ts'

export const area: Area = {
  operations: [...organizations, ...auditLog],
  jobs: [job('organizations.copy_logo', copyLogo)],
  sweeps: [],
  periodicTasks: [periodicTask('organizations.copy_logos', copyMissingLogos), periodicTask('organizations.purge_mails', purge)],
  personal: {
    organizations: { columns: { email: 'address', sender_address: 'address', details: 'nothing', legal_entity: 'nothing' } },
    // The order matters: the erasure waits for a mail that a report has locked, and then finds the report too.
    sent_mails: { of: 'customer_id', by: { any_address: 'address' }, columns: { address: 'address' } },
    mail_reports: { of: 'customer_id', by: { any_address: 'address' }, columns: { address: 'address', diagnostic: 'nothing' } },
  },
}

export {
  allowOffSession,
  allowSender,
  readSender,
  changePhase,
  chooseOne,
  chooseOrganization,
  createOrganization,
  createLegacyOrganization,
  capabilities,
  dropAvatar,
  presentBrand,
  findSeller,
  presentOrganization,
  presentSeller,
} from './organizations/organizations.ts'
export { brandOf, lookOf } from './brand.ts'
export { accountUrl, languageOfSeller, portalUrl, sendMail } from './mails.ts'
export { keepLogo, readKeptLogo, readLogo } from './logos/logos.ts'
export { receiveReport } from './mail-reports/mail-reports.ts'
export { clearSuppression, listSuppressed } from './mail-reports/mail-reports.sql.ts'
export { confine, permissionsOf, permit, permits, permissions, type Permission } from './permissions.ts'
export {
  findLivingOrganization,
  listSlugs,
  findOrganization,
  findSeatSellers,
  listSenders,
  heldPhase,
  holdPhase,
  insertMembership,
  type OrganizationRow,
} from './organizations/organizations.sql.ts'
