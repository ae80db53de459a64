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
  periodicTasks: [],
}

export { readAnswers } from './custom-fields/answers.ts'
export { createCustomField } from './custom-fields/custom-fields.ts'
export {
  findBenefit,
  givesBenefits,
  productsWithBenefits,
  holdBenefits,
  holdBenefitsOf,
  insertBenefit,
  loadBenefits,
  replaceBenefits,
  type BenefitTable,
} from './benefits/benefits.sql.ts'
export { createBenefit, keepBenefitFiles, presentBenefit, settleBenefit } from './benefits/benefits.ts'
export { createDiscount, presentDiscount, presentDiscountBase } from './discounts/discounts.ts'
export {
  discountFromJson,
  discountJson,
  findDiscountByCode,
  findDiscount,
  findDiscountEver,
  type DiscountRow,
  type DiscountTable,
  type JsonDiscount,
} from './discounts/discounts.sql.ts'
export { loadFiles, type FileRow } from './files/files.sql.ts'
export { presentFileBase, presentDownloadable } from './files/presenting.ts'
export { contributionOf, emptyTally, mergeTallies, quantityOf, uniqueValueOf, type Tally } from './calc/aggregations.ts'
export { compileFilter, matches, Properties, sizeOfFilter, type Predicate } from './calc/compiled-filters.ts'
export { isExactNumber, placeOf, textOf, type Counted } from './calc/filters.ts'
export { countedSql, quantitySql, tallySql, uniqueHashSql } from './meters/aggregations.sql.ts'
export { filterSql } from './meters/filters.sql.ts'
export { createMeter } from './meters/meters.ts'
export { findMeter } from './meters/meters.sql.ts'
export {
  insertPrices,
  insertProduct,
  loadPrices,
  loadProductRows,
  loadProducts,
  priceFromJson,
  priceRow,
  pricesJson,
  productFromJson,
  productJson,
  productRowFromJson,
  productRowJson,
  type JsonProduct,
  type LoadedProduct,
  type PriceRow,
  type ProductRow,
} from './products/products.sql.ts'
export { priceProblems } from './products/prices.ts'
export { createProduct, leadingPrice, metersOf, presentProduct, presentBareProduct, presentPrice, presentPrices } from './products/products.ts'
