import type { Area } from '../handlers.ts'
import { operations as customFields } from './custom-fields/custom-fields.api.ts'
import * as files from './files/files.api.ts'
import { operations as benefits } from './benefits/benefits.api.ts'
import { operations as discounts } from './discounts/discounts.api.ts'
import { operations as meters } from './meters/meters.api.ts'
import { operations as products } from './products/products.api.ts'
import { operations as storefront } from './storefront/storefront.api.ts'

export const area: Area = {
  operations: [...products, ...customFields, ...meters, ...discounts, ...benefits, ...storefront, ...files.operations],
  jobs: [],
  sweeps: files.sweeps,
  chores: [],
}

export { readAnswers } from './custom-fields/answers.ts'
export { create as createCustomField } from './custom-fields/custom-fields.ts'
export {
  findBenefit,
  givesBenefits,
  holdBenefits,
  holdBenefitsOf,
  insertBenefit,
  loadBenefits,
  replaceBenefits,
  type BenefitTable,
} from './benefits/benefits.sql.ts'
export { create as createBenefit, keepFiles as keepBenefitFiles, present as presentBenefit, settle as settleBenefit } from './benefits/benefits.ts'
export { create as createDiscount, present as presentDiscount, presentBase as presentDiscountBase } from './discounts/discounts.ts'
export {
  findByCode as findDiscountByCode,
  findDiscount,
  findDiscountEver,
  knownProducts as holdProducts,
  loadDiscounts,
  type DiscountRow,
  type DiscountTable,
} from './discounts/discounts.sql.ts'
export { loadFiles, type FileRow } from './files/files.sql.ts'
export { commonOf as presentFileBase, presentDownloadable } from './files/presenting.ts'
export { loadMeters } from './meters/meters.sql.ts'
export { create as createMeter } from './meters/meters.ts'
export {
  insertPrices,
  insertProduct,
  loadPrices,
  loadPricesOf,
  loadProductRows,
  loadProducts,
  priceRow,
  type Loaded as LoadedProduct,
  type PriceRow,
  type ProductRow,
} from './products/products.sql.ts'
export { priceProblems } from './products/prices.ts'
export {
  create as createProduct,
  leading as leadingPrice,
  metersOf,
  present as presentProduct,
  presentBare as presentBareProduct,
  presentPrice,
  presentPrices,
} from './products/products.ts'
